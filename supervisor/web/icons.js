// Shapes of the icons, on a field of 16 x 16. Every state has its own shape: colour only repeats what the shape says.

export const ICONS = {
  pending: "M8 1a7 7 0 1 0 0 14A7 7 0 0 0 8 1zm0 2a5 5 0 1 1 0 10A5 5 0 0 1 8 3zM7 4.500h2v3.100l2.200 1.300-1 1.700L7 8.700z",
  launching: "M8 1l5 6h-3v4H6V7H3zM3 13h10v2H3z",
  running: "M4 2l10 6-10 6z",
  restarting: "M8 2a6 6 0 0 1 5.200 3H15l-2.500 4L10 5h1a4 4 0 0 0-7 1.500L2.200 6A6 6 0 0 1 8 2zm0 12a6 6 0 0 1-5.200-3H1l2.500-4L6 11H5a4 4 0 0 0 7-1.500l1.800.5A6 6 0 0 1 8 14z",
  stopping: "M2 2h5v5H2zM9 2h5v5H9zM2 9h5v5H2zM9 9h5v5H9z",
  stopped: "M3 3h10v10H3z",
  held: "M3 2h4v12H3zM9 2h4v12H9z",
  finished: "M6.200 13.500L1 8.300l1.900-1.900 3.300 3.300L13.100 2.500 15 4.400z",
  failed: "M3.400 1.500L8 6.100l4.600-4.600 1.900 1.900L9.900 8l4.600 4.600-1.900 1.900L8 9.900l-4.600 4.600-1.900-1.900L6.100 8 1.500 3.400z",
  unseen: "M1.400 2.800L2.800 1.400l11.800 11.800-1.400 1.400-3-3A4 4 0 0 1 8 12c-3.500 0-6-2.500-7-4 .5-.8 1.400-1.800 2.600-2.600zM8 4c3.500 0 6 2.500 7 4-.4.600-1 1.300-1.800 2L10.700 7.500A2.800 2.800 0 0 0 8.500 5.300L7.300 4z",
  hold: "M3 2h4v12H3zM9 2h4v12H9z",
  trouble: "M8 1l7.500 13.500H.500zM7 6v4h2V6zm0 5.200v1.800h2v-1.800z",
};
