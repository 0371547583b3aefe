"""The draft of a spec from a process that runs: command line, work folder, environment, checkpoints. Values of secrets
never leave this file: their names do."""

import itertools
import os
import re
import shlex
from typing import Any

from supervisor.probe import folder, processes
from supervisor.probe.processes import Stat
from supervisor.probe.redaction import is_secret_name, redacted, redacted_argv

RELEVANT = (
    *("CUDA_", "NVIDIA_", "NCCL_", "GLOO_", "TORCH", "PYTORCH_", "HF_", "TRANSFORMERS_", "TOKENIZERS_", "WANDB_"),
    *("ACCELERATE_", "DS_", "DEEPSPEED_", "OMP_", "MKL_", "OPENBLAS_", "XLA_", "JAX_", "TF_", "TRITON_", "MLFLOW_"),
    *("COMET_", "NEPTUNE_", "CLEARML_", "MASTER_", "UCX_", "FLASH_", "VLLM_", "BNB_", "DATA_", "DATASETS_"),
)
"""Beginnings of names that change how a training runs."""
RELEVANT_NAMES = frozenset({"PYTHONPATH", "LD_LIBRARY_PATH", "LD_PRELOAD", "PYTHONHASHSEED", "CUBLAS_WORKSPACE_CONFIG"})
RANKS = frozenset({"MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID", "TORCHELASTIC_USE_AGENT_STORE"})
"""What a launcher puts into its workers' environment."""
_LAUNCHERS = ("torchrun", "accelerate", "deepspeed")
_FOLDER_FLAGS = re.compile(r"--?(?:output|out|save|ckpt|checkpoint|checkpoints)(?:[_.-]?(?:dir|path|folder))?\Z")
_FOLDER_KEYS = re.compile(
    r"""(?m)^[\s{]*["']?(?:output|save|ckpt|checkpoint|checkpoints)_(?:dir|path|folder)["']?\s*[:=]\s*"""
    r"""["']?(?P<place>[^"'\s#,}]+)"""
)
_USUAL_FOLDERS = ["out", "output", "outputs", "checkpoints", "runs", "."]
_CONFIGURATIONS = (".yaml", ".yml", ".json", ".toml")
_NUMBERED = re.compile(
    r"(?P<head>[\w.=-]*?(?:checkpoint|ckpt|step|iter|epoch|global_step)[_=-]?)(?P<no>\d+)(?P<tail>\D*)\Z"
)
_TRAINER_CLASS = re.compile(r"\b(?:transformers|trl)\b")
_TRAINER_CALL = re.compile(r"\b\w*Trainer\s*\(")
MAX_SCRIPT_BYTES = 256 * 1024


def draft(roots: list[Stat], table: processes.Table, *, gpus_known: bool) -> dict[str, Any]:
    """Keys of a spec as far as they can be read, and `notes` about what a person should look at."""
    leader = roots[0]
    trainer = _trainer(leader, table)
    environment = environment_of(trainer.pid) or {}
    cwd = cwd_of(leader.pid)
    notes: list[str] = []
    found: dict[str, Any] = {"workdir": cwd or "~"}
    found |= _home(trainer, environment, notes)
    argv = argv_of(leader.pid)
    found["command"] = _command(argv, bool(found.get("venv") or found.get("conda")), notes)
    _note_pipe(roots, notes)
    found |= _variables(environment, gpus_known, notes)
    script = _script_of(argv_of(trainer.pid))
    preset = _preset(argv, argv_of(trainer.pid), script, cwd_of(trainer.pid))
    if preset:
        found["preset"] = preset
    words = [*argv, *argv_of(trainer.pid)]
    configuration = _configuration(words, cwd)
    if configuration:
        notes.append(
            f"config: {configuration} is named on the command line; write {{config}} there, and "
            f"`config: {{file: {configuration}}}`, and its settings can be turned"
        )
    checkpoint = _checkpoint([*_flagged(words), *_told(configuration, cwd)], cwd, preset)
    if checkpoint:
        found["checkpoint"] = checkpoint
    elif checkpoint := _checkpoint(_USUAL_FOLDERS, cwd, preset):
        found["checkpoint"] = checkpoint
        notes.append(f"checkpoint: {checkpoint['path']} is a guess by its name; are the checkpoints there this run's?")
    elif preset is None:
        notes.append("checkpoint: nothing was recognised; without `checkpoint` and `resume` no attempt can go on")
    _note_files(trainer, notes)
    return {"spec": found, "notes": notes}


def secret_values(pid: int) -> list[bytes]:
    """What must not be written to a log: values of the process's variables that are named like secrets."""
    return [value.encode() for name, value in (environment_of(pid) or {}).items() if is_secret_name(name)]


def argv_of(pid: int) -> list[str]:
    """The command line; empty where it cannot be read."""
    text = folder.content(f"/proc/{pid}/cmdline", 1 << 20)
    return text.decode("utf-8", "replace").removesuffix("\0").split("\0") if text else []


def cwd_of(pid: int) -> str | None:
    """The work folder; None where it cannot be read."""
    try:
        return os.readlink(f"/proc/{pid}/cwd").removesuffix(" (deleted)")
    except OSError:
        return None


def environment_of(pid: int) -> dict[str, str] | None:
    """The environment that it was started with; None where it may not be read."""
    text = folder.content(f"/proc/{pid}/environ", 1 << 20)
    if not text:
        return None
    pairs = (entry.decode("utf-8", "replace").partition("=") for entry in text.split(b"\0") if b"=" in entry)
    return {name: value for name, _, value in pairs}


def pattern_in(path: str) -> str | None:
    """What stands for the step in the names of the checkpoints that lie there."""
    try:
        names = sorted(os.listdir(path))[:2000]
    except OSError:
        return None
    matches = [match for name in names if (match := _NUMBERED.match(name)) is not None]
    heads = {(match["head"], match["tail"]) for match in matches}
    if len(heads) != 1:
        return None
    head, tail = heads.pop()
    return re.escape(head).replace(r"\-", "-") + r"(\d+)" + re.escape(tail)


def _trainer(leader: Stat, table: processes.Table) -> Stat:
    """The first Python process of the job, else its leader."""
    level, seen = [leader], {leader.pid}
    while level:
        for stat in level:
            if stat.lives and os.path.basename((argv_of(stat.pid) or [""])[0]).startswith("python"):
                return stat
        parents = {stat.pid for stat in level}
        level = [stat for stat in table.stats.values() if stat.ppid in parents and stat.pid not in seen]
        level.sort(key=lambda stat: stat.start_ticks)
        seen |= {stat.pid for stat in level}
    return leader


def _command(argv: list[str], has_home: bool, notes: list[str]) -> str:
    if not argv:
        notes.append("command: the command line cannot be read")
        return "false  # the command line could not be read"
    shown = redacted_argv(argv)
    if shown != argv:
        notes.append("command: a secret was masked (***); name it in `secrets` and read it from the environment")
    if len(shown) >= 3 and os.path.basename(shown[0]) in ("sh", "bash", "dash", "zsh") and shown[1] == "-c":
        return shown[2]
    if os.path.basename(shown[0]).startswith("python") and len(shown) > 1:
        name = os.path.basename(shown[1])
        if name in _LAUNCHERS:
            shown = [name if has_home else shown[1], *shown[2:]]
    return shlex.join(shown)


def _home(trainer: Stat, environment: dict[str, str], notes: list[str]) -> dict[str, str]:
    """The virtual environment that its Python belongs to."""
    prefix, name = environment.get("CONDA_PREFIX"), environment.get("CONDA_DEFAULT_ENV")
    word = (argv_of(trainer.pid) or [""])[0]
    place = environment.get("VIRTUAL_ENV")
    if not place and "/" in word:
        parent = os.path.dirname(os.path.dirname(os.path.join(cwd_of(trainer.pid) or "/", word)))
        place = parent if os.path.exists(os.path.join(parent, "pyvenv.cfg")) else None
    if place and os.path.exists(os.path.join(place, "bin", "activate")):
        return {"venv": place}
    if prefix and name and name != "base":
        notes.append(f"conda: {name} must be known to the login shell's conda ({prefix})")
        return {"conda": name}
    return {}


def _variables(environment: dict[str, str], gpus_known: bool, notes: list[str]) -> dict[str, Any]:
    env: dict[str, str] = {}
    secrets: list[str] = []
    found: dict[str, Any] = {}
    for name, value in sorted(environment.items()):
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) or name in RANKS:
            continue
        if is_secret_name(name):
            secrets.append(name)
        elif name == "CUDA_VISIBLE_DEVICES":
            numbers = [word.strip() for word in value.split(",") if word.strip()]
            if gpus_known and numbers and all(word.isdigit() for word in numbers):
                found["gpus"] = [int(word) for word in numbers]
            else:
                notes.append(f"gpus: CUDA_VISIBLE_DEVICES was {value!r}")
        elif name.startswith(RELEVANT) or name in RELEVANT_NAMES:
            if redacted(value) == value:
                env[name] = value
            else:
                secrets.append(name)
    if env:
        found["env"] = env
    if secrets:
        found["secrets"] = secrets
    return found


def _script_of(argv: list[str]) -> str | None:
    """The Python file that runs."""
    return next((word for word in argv[1:] if word.endswith(".py")), None)


def _preset(argv: list[str], trainer: list[str], script: str | None, cwd: str | None) -> str | None:
    words = [*argv, *trainer]
    modules = {after for word, after in itertools.pairwise(words) if word == "-m"}
    if "trainer" in modules or any(os.path.basename(word) == "dflash-train" for word in words):
        return "dflash"
    if script:
        text = folder.content(os.path.join(cwd or "/", script), MAX_SCRIPT_BYTES).decode("utf-8", "replace")
        if _TRAINER_CLASS.search(text) and _TRAINER_CALL.search(text):
            return "hf-trainer"
    if "torch.distributed.run" in modules or any(os.path.basename(word) == "torchrun" for word in words):
        return "torchrun"
    return None


def _checkpoint(places: list[str], cwd: str | None, preset: str | None) -> dict[str, str] | None:
    for place in places:
        path = os.path.join(cwd or "/", place)
        step = pattern_in(path)
        if step:
            return {"path": place, "step": step}
        if preset == "hf-trainer":
            return {"path": place}
    return None


def _flagged(words: list[str]) -> list[str]:
    """Folders that flags of the command line name."""
    found = []
    for number, word in enumerate(words):
        flag, equals, value = word.partition("=")
        if _FOLDER_FLAGS.match(flag):
            value = value if equals else (words[number + 1] if number + 1 < len(words) else "")
            if value and not value.startswith("-") and value not in found:
                found.append(value)
    return found


def _configuration(words: list[str], cwd: str | None) -> str | None:
    """The one configuration file that the command line names; None where there is none, or several."""
    named = {word for word in words if word.endswith(_CONFIGURATIONS) and not word.startswith("-")}
    there = [word for word in named if os.path.isfile(os.path.join(cwd or "/", word))]
    return there[0] if len(there) == 1 else None


def _told(configuration: str | None, cwd: str | None) -> list[str]:
    """Folders that the configuration file names."""
    if configuration is None:
        return []
    text = folder.content(os.path.join(cwd or "/", configuration), MAX_SCRIPT_BYTES).decode("utf-8", "replace")
    return [match["place"] for match in _FOLDER_KEYS.finditer(text)]


def _note_pipe(roots: list[Stat], notes: list[str]) -> None:
    others = [" ".join(redacted_argv(argv_of(stat.pid)))[:120] for stat in roots[1:] if stat.ppid != roots[0].pid]
    if others:
        notes.append(f"command: its output went on to `{' | '.join(others)}`; Vigil keeps the log by itself")


def _note_files(trainer: Stat, notes: list[str]) -> None:
    try:
        numbers = os.listdir(f"/proc/{trainer.pid}/fd")
    except OSError:
        return
    for number in sorted(numbers, key=int):
        try:
            place = os.readlink(f"/proc/{trainer.pid}/fd/{number}")
        except OSError:
            continue
        if place.endswith((".log", ".out", ".txt")) and os.path.isfile(place) and _writes(trainer.pid, number):
            notes.append(f"log: it writes to {place}; adopt it with --log to follow that file")
        elif place.endswith(".jsonl") and os.path.isfile(place) and _writes(trainer.pid, number):
            notes.append(f"metrics: it writes to {place}")


def _writes(pid: int, number: str) -> bool:
    for line in folder.content(f"/proc/{pid}/fdinfo/{number}", 4096).splitlines():
        if line.startswith(b"flags:"):
            return int(line.split()[1], 8) & os.O_ACCMODE != os.O_RDONLY
    return False
