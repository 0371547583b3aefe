"""The configuration: types, overrides, errors that name the key."""

from __future__ import annotations

from pathlib import Path

import pytest

from trainer.config import Config, ConfigError, flatten, load

ROOT = Path(__file__).parents[3]
EXAMPLES = ROOT / "deploy" / "examples"


def written(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "config.toml"
    file.write_text(text)
    return file


def test_override_wins_over_file(tmp_path: Path) -> None:
    file = written(tmp_path, "[optim]\nlr = 1e-3\n")
    config = load(file, ["optim.lr=0.5", "model.target=random:8b", "model.taps=[1, 2]", "optim.clip=2"])
    assert (config.optim.lr, config.model.target, config.model.taps) == (0.5, "random:8b", (1, 2))
    assert config.optim.clip == 2.0


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[attention]\nsdpa_chunks = 3", "unknown key attention.sdpa_chunks; did you mean attention.sdpa_chunk?"),
        ("[batch]\nsdpa_chunk = 3", "unknown key batch.sdpa_chunk; did you mean attention.sdpa_chunk?"),
        ("[optimizer]\nlr = 3", "unknown section [optimizer]; did you mean optim?"),
        ("[train]\nsteps = 'many'", "train.steps must be int, not 'many'"),
        ("[train]\nsteps = true", "train.steps must be int, not True"),
        ("[batch]\nbounds = 3", "batch.bounds must be a list of int, not 3"),
        ("[batch]\nbounds = [3, 2]", "batch.bounds must rise"),
        ("[train]\nsteps = 0", "train.steps must be at least 1, not 0"),
        ("[loss]\nkind = 'mse'", "loss.kind must be one of"),
        ("[attention]\npath = 'flex'", "attention.path: flex needs an accelerator; on the CPU use sdpa"),
        ("[topology]\ndrafters = []", "topology.drafters must name exactly one device"),
        ("train = 3", "train must be a table"),
        ("= 3", "is not TOML"),
    ],
)
def test_bad_configuration_names_the_key(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(written(tmp_path, text))
    assert said in str(caught.value)


def test_missing_file_and_malformed_override(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file"):
        load(tmp_path / "nowhere.toml")
    with pytest.raises(ConfigError, match=r"expected section\.key=value"):
        load(written(tmp_path, ""), ["steps=3"])


def test_runtime_settings_are_not_in_the_fingerprint(tmp_path: Path) -> None:
    file = written(tmp_path, "")
    loose = ["attention.sdpa_chunk=1", "batch.tokens=32768", "optim.accumulate=2", "loss.chunk=3", "train.threads=5"]
    assert load(file, loose).fingerprint() == load(file).fingerprint()
    assert load(file, ["loss.gamma=1.5"]).fingerprint() != load(file).fingerprint()
    assert load(file, ["optim.accumulate=2"]).fingerprint() != load(file).fingerprint()


@pytest.mark.parametrize("example", ["dflash-cpu.toml", "dflash-27b-7x1.toml"])
def test_examples_hold_every_key(example: str) -> None:
    import tomllib

    tree = tomllib.loads((EXAMPLES / example).read_text())
    held = {f"{section}.{key}" for section, table in tree.items() for key in table}
    assert held == set(flatten(Config()))
    load(EXAMPLES / example)


def test_every_key_is_documented() -> None:
    text = (ROOT / "docs" / "trainer.md").read_text()
    missing = [key for key in flatten(Config()) if f"`{key}`" not in text]
    assert not missing
