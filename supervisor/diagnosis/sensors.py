"""What the devices, the host and the processes show in one observation, in the form that detectors ask for."""

from dataclasses import dataclass

from supervisor.diagnosis.state import DeviceMemory, State
from supervisor.model.observation import Device, Observation

GIB = float(1 << 30)
HELD_BYTES = 1.5 * GIB
"""Less than this may be the driver's own or a context that is just going."""
SETTLED_S = 2.0
"""After an end the device needs a moment to give memory back (0.2 s seen for 120 GB)."""
SPIN_UTIL = 90.0
SPIN_POWER = 0.4
"""A kernel that only waits for its peers: full utilisation at a small part of the power (0.18-0.25 seen)."""
WORK_POWER = 0.5
IDLE_UTIL = 10.0
BUSY_CPU_PERCENT = 15.0
BUSY_BPS = 500_000.0
KEPT_WINDOWS = 12


@dataclass(frozen=True, slots=True)
class Held:
    """Device memory that is not the run's."""

    amount_bytes: float
    share: float
    busy: bool
    """Somebody works on the device."""


@dataclass(frozen=True, slots=True)
class Sensors:
    """One observation, read for detectors."""

    seen: Observation
    settled: bool = False
    """Long enough after the end that what is still held is not the run's."""
    windows: int = 99
    """How many device windows there can be at most: a single look has one."""

    @property
    def devices(self) -> tuple[Device, ...]:
        """The devices that could be read."""
        return self.seen.devices or ()

    @property
    def mismatch(self) -> bool:
        """The driver and its library do not fit, as our own read says."""
        return "version mismatch" in self.seen.blind.get("gpu", "").lower()

    @property
    def mig(self) -> bool:
        """A device answers without utilisation though memory can be read, as slices do."""
        return any(
            device.used_bytes.last is not None and device.util_percent.last is None and device.power_limit_w
            for device in self.devices
        )

    def fill(self, state: State) -> float | None:
        """How full the fullest device was, 0 to 1; None where no device could be read."""
        shares = [memory.peak / memory.total for memory in state.devices.values() if memory.total]
        return max(shares) if shares else None

    def held_by_others(self) -> Held | None:
        """Memory that somebody else, or nobody who can be named, holds after the end or held from the start."""
        if not self.settled:
            return None
        best: Held | None = None
        for device in self.devices:
            used, total = device.used_bytes.last, device.total_bytes
            low = device.used_bytes.min
            if used is None or not total:
                continue
            amount = min(used, low if low is not None else used) - (device.own_bytes or 0)
            if amount < max(HELD_BYTES, 0.05 * total):
                continue
            held = Held(amount, amount / total, (device.util_percent.last or 0) > IDLE_UTIL)
            best = held if best is None or held.share > best.share else best
        return best

    @property
    def own_devices(self) -> list[Device]:
        """The devices that the run uses: those with memory of its own, else all."""
        own = [device for device in self.devices if device.own_bytes]
        if own:
            return own
        used = [
            device
            for device in self.devices
            if device.used_bytes.last and device.total_bytes and device.used_bytes.last > GIB
        ]
        return used or list(self.devices)

    def spinning(self) -> list[bool]:
        """Per device of the run: full utilisation at small power."""
        return [
            (device.util_percent.last or 0) >= SPIN_UTIL
            and device.power_w.last is not None
            and bool(device.power_limit_w)
            and device.power_w.last < SPIN_POWER * (device.power_limit_w or 1)
            for device in self.own_devices
        ]

    def working(self) -> bool:
        """A device works: utilisation with the power that goes with it."""
        for device in self.own_devices:
            util, power, limit = device.util_percent.last, device.power_w.last, device.power_limit_w
            if util is not None and util > 30 and (power is None or not limit or power > WORK_POWER * limit):
                return True
        return False

    def devices_idle(self) -> bool:
        """Every device of the run is idle; False where none can be read."""
        known = [device.util_percent.last for device in self.own_devices if device.util_percent.last is not None]
        return bool(known) and all(util < IDLE_UTIL for util in known)

    def host_busy(self) -> bool | None:
        """Processor or disk work for the run; None where the host cannot be read."""
        host, processes = self.seen.host, self.seen.processes
        if host is None and processes is None:
            return None
        moved = (host.disk_read_bps or 0) + (host.disk_write_bps or 0) if host else 0
        running = (processes.states.get("R", 0) if processes else 0) >= 2
        busy = host is not None and (host.cpu_percent or 0) >= BUSY_CPU_PERCENT
        spin = len([one for one in self.spinning() if one])
        # Each rank that waits for the device keeps about one core busy: that is no work.
        idle_running = processes.states.get("R", 0) <= spin if processes else False
        return moved >= BUSY_BPS or ((busy or running) and not (spin and idle_running))

    def stuck(self) -> bool:
        """Processes in uninterruptible sleep while nothing moves."""
        processes = self.seen.processes
        return processes is not None and processes.states.get("D", 0) > 0 and not self.host_busy()


def fold_devices(state: State, seen: Observation) -> None:
    """Take the observation's device windows into the state."""
    for device in seen.devices or ():
        key = device.uuid[:48] or str(device.index)
        if key not in state.devices and len(state.devices) >= 16:
            continue
        memory = state.devices.setdefault(key, DeviceMemory())
        memory.total = float(device.total_bytes) if device.total_bytes else memory.total
        window = device.used_bytes
        if window.last is not None and memory.first_used is None:
            memory.first_used = window.last
        if window.max is not None:
            memory.peak = max(memory.peak, window.max)
        if window.min is not None and window.max is not None:
            memory.lows = [*memory.lows, window.min][-KEPT_WINDOWS:]
            memory.highs = [*memory.highs, window.max][-KEPT_WINDOWS:]
