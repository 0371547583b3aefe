import tomllib
from typing import Any

import pytest

from supervisor.model.errors import InvalidInput
from supervisor.remedy.configuration import check_overrides, configuration_of, difference, resolve, value_at
from tests.unit.remedy.made import spec

FILE = "# mine\nmodel:\n  chunk: 128  # blocks\n  lr: 1e-4\nresume: null\n"


def with_file(**changes: Any) -> Any:
    knob = {"key": "config.model.chunk", "step": "halve", "min": 16, "relieves": ["gpu_oom"]}
    return spec(config={"file": "conf/train.yaml"}, knobs=[knob], **changes)


def test_a_file_is_used_as_it_is_until_something_is_turned() -> None:
    resolved = resolve(with_file(), {}, file_text=FILE)
    assert (resolved.config_path, resolved.config_text, resolved.config_name) == ("conf/train.yaml", None, None)
    assert resolved.values["model"] == {"chunk": 128, "lr": 1e-4}
    assert resolved.diff == ""
    turned_flag = resolve(with_file(), {"args.--batch": 3, "env.X": "1"}, file_text=FILE, checkpoint="/c")
    assert turned_flag.config_path == "conf/train.yaml"


def test_a_turned_value_makes_a_copy_beside_the_file() -> None:
    resolved = resolve(with_file(), {"config.model.chunk": 64}, file_text=FILE, attempt_no=3)
    assert resolved.config_path is None
    assert resolved.config_beside == "conf/train.yaml"
    assert resolved.config_name == "train.vigil-vit-3.yaml"
    assert resolved.config_text == FILE.replace("128", "64").encode()
    assert "-  chunk: 128  # blocks\n+  chunk: 64  # blocks" in resolved.diff


def test_an_unread_or_broken_file_is_no_error_while_nothing_is_turned() -> None:
    for text in (None, "a: ["):
        assert resolve(with_file(), {}, file_text=text).config_path == "conf/train.yaml"
        with pytest.raises(InvalidInput, match=r"config\.model\.chunk"):
            resolve(with_file(), {"config.model.chunk": 64}, file_text=text)


def test_values_are_rendered_for_every_attempt() -> None:
    resolved = resolve(spec(), {"config.attention.sdpa_chunk": 64})
    assert resolved.config_name == "config.toml"
    assert resolved.config_beside is None
    assert resolved.config_text is not None
    assert tomllib.loads(resolved.config_text.decode()) == {"attention": {"sdpa_chunk": 64}, "lr": 1e-4}
    assert resolved.values == {"attention": {"sdpa_chunk": 64}, "lr": 1e-4}


@pytest.mark.parametrize(
    ("resume", "command", "env", "values"),
    [
        ("--resume {checkpoint}", "run --b 1 --resume /out/4", {}, {"resume": None}),
        ("auto", "run --b 1", {}, {"resume": None}),
        ("scratch", "run --b 1", {}, {"resume": None}),
        ({"env": "RESUME"}, "run --b 1", {"RESUME": "/out/4"}, {"resume": None}),
        ({"config": "resume"}, "run --b 1", {}, {"resume": "/out/4"}),
    ],
)
def test_resume_recipes(resume: Any, command: str, env: dict[str, str], values: dict[str, Any]) -> None:
    of = spec(
        resume=resume,
        command="run --b 1",
        env={"CONFIG": "{config}"},
        config={"format": "yaml", "values": {"resume": None}},
        knobs=[],
    )
    resolved = resolve(of, {}, checkpoint="/out/4")
    assert resolved.command == command
    assert resolved.env == {"CONFIG": "{config}", **env}
    assert resolved.values == values
    fresh = resolve(of, {})
    assert (fresh.command, fresh.values) == ("run --b 1", {"resume": None})


def test_resuming_by_a_key_of_the_file_makes_a_copy() -> None:
    resolved = resolve(with_file(resume={"config": "resume"}), {}, file_text=FILE, checkpoint="/out/4")
    assert resolved.config_beside == "conf/train.yaml"
    assert resolved.config_text == FILE.replace("resume: null", "resume: /out/4").encode()


def test_environment_is_set_and_unset() -> None:
    of = spec(env={"A": "1", "B": "0.10"})
    resolved = resolve(of, {"env.A": None, "env.B": 0.05, "env.C": True})
    assert resolved.env == {"B": "0.05", "C": "true"}
    assert resolved.unset == ("A",)


@pytest.mark.parametrize("key", ["attention.sdpa_chunk", "args.", "config.", "secrets.X", "env.A B", "env.A=B"])
def test_a_key_that_is_no_setting_is_refused(key: str) -> None:
    with pytest.raises(InvalidInput, match=r"env\.NAME, config\.PATH or args\.--flag"):
        resolve(spec(), {key: 1})


def test_the_difference_of_two_launches() -> None:
    one = resolve(spec(), {"config.attention.sdpa_chunk": 64})
    two = resolve(spec(), {"config.attention.sdpa_chunk": 32, "args.--batch": 3})
    lines = difference(one, two).splitlines()
    assert "-sdpa_chunk = 64" in lines
    assert "+sdpa_chunk = 32" in lines
    assert any(line.startswith("+") and "--batch 3" in line for line in lines)


def test_values_of_the_spec_and_of_a_turned_run() -> None:
    assert value_at(spec(), "args.--batch") == 7
    assert configuration_of(spec(), overrides={"args.--batch": 3}).value("args.--batch") == 3
    with pytest.raises(InvalidInput, match="did you mean"):
        value_at(spec(), "config.attention.chunk")


def test_overrides_are_checked_as_far_as_is_known() -> None:
    check_overrides(spec(), {"config.attention.sdpa_chunk": 64, "args.--batch": 3, "env.NEW": "x"})
    for key in ("config.attention.chunk", "args.--no-such-flag", "args.batch", "lr"):
        with pytest.raises(InvalidInput):
            check_overrides(spec(), {key: 1})
    check_overrides(with_file(), {"config.model.chunk": 64}, file_text=FILE)
    with pytest.raises(InvalidInput, match="did you mean"):
        check_overrides(with_file(), {"config.model.chunks": 64}, file_text=FILE)
    check_overrides(with_file(), {"config.model.chunks": 64})


def test_an_override_that_the_program_never_sees_is_refused() -> None:
    with pytest.raises(InvalidInput, match="has no effect"):
        check_overrides(spec(command="python train.py"), {"config.lr": 1})
