import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.model.errors import InvalidInput
from supervisor.remedy.commandline import Command, flag_value, with_flag, with_resume


@pytest.mark.parametrize(
    ("command", "value", "after"),
    [
        ("run  --b 8   --c", 8, "run  --b 4   --c"),
        ("run --b=8 # --b 9", 8, "run --b=4 # --b 9"),
        ("run '--b' \"8\"|tee x", 8, "run '--b' 4|tee x"),
        (("run", "--b", "8"), 8, ("run", "--b", "4")),
        (("run", "--b=8", "--bb=8"), 8, ("run", "--b=4", "--bb=8")),
        ("python -X dev train.py --b 8", 8, "python -X dev train.py --b 4"),
        ("torchrun --b 8 train.py --c 9", 8, "torchrun --b 4 train.py --c 9"),
        ("cd x && A=1 run --b='8' 2>&1 | tee --c log", 8, "cd x && A=1 run --b=4 2>&1 | tee --c log"),
        ("cd x\n. env.sh\nrun \\\n  --b 8\n", 8, "cd x\n. env.sh\nrun \\\n  --b 4\n"),
        ("conda activate a; run --b 8", 8, "conda activate a; run --b 4"),
        ("run --b -8 x", -8, "run --b 4 x"),
    ],
)
def test_one_flag_is_replaced_by_its_place(command: object, value: int, after: object) -> None:
    assert flag_value(command, "--b") == value  # type: ignore[arg-type]
    assert with_flag(command, "--b", 4) == after  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("run --c 8", "is not on the command line"),
        ("run --bb 8", "is not on the command line"),
        ("bash -c 'run --b 8'", "inside a quoted line"),
        (("bash", "-c", "run --b=8"), "inside a quoted line"),
        ("prepare --b 8 && run --c 9", "belongs to another command"),
        ("run --c 9 | tee --b 8", "belongs to another command"),
        ("prepare; run --b 8", "several commands"),
        ("for i in 1 2; do run --b 8; done", "several commands"),
        ("run --b 8 16", "several values"),
        ("run --b x y", "several values"),
        ("run --b $((4 * 2))", "only the shell can expand"),
        ("run --b={4,8}", "only the shell can expand"),
        ("run --b_x 8 --B 9", "is spelled --B"),
        ("run --b 8 --b=9", "stands 2 times"),
        ("run --b $B", "only the shell can expand"),
        ("run --b '8", "no whole shell line"),
        (("run", "--b", "8", "--b", "8"), "stands 2 times"),
    ],
)
def test_a_flag_that_is_not_exactly_one_literal_word_is_refused(command: object, why: str) -> None:
    with pytest.raises(InvalidInput, match=why):
        flag_value(command, "--b")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("command", "flag", "value", "after"),
    [
        ("run -b8 -c", "-b", 8, "run -b4 -c"),
        ("run -b 8 -c", "-b", 8, "run -b 4 -c"),
        ("run -b=8", "-b", 8, "run -b=4"),
        ("run -lr 1e-3 -l 8", "-l", 8, "run -lr 1e-3 -l 4"),
        ("run batch.size=8 size=9", "batch.size", 8, "run batch.size=4 size=9"),
        (("run", "+batch.size=8"), "batch.size", 8, ("run", "+batch.size=4")),
        ("run --per-device 8 --per_device=9", "--per-device", 8, "run --per-device 4 --per_device=9"),
    ],
)
def test_short_flags_and_overrides(command: object, flag: str, value: int, after: object) -> None:
    assert flag_value(command, flag) == value  # type: ignore[arg-type]
    assert with_flag(command, flag, 4) == after  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("command", "flag", "why"),
    [
        ("python -b train.py -b 8", "-b", "stands 2 times"),
        ("run -bx", "-b", "is not on the command line"),
        ("run --batch-size 8", "--batch_size", "is spelled --batch-size"),
        ("run --batchsize 8", "--batchsizes", "did you mean --batchsize"),
        ("run batch_size=8", "batch.size", "did you mean batch_size"),
        ("run ~batch.size a.batch.size=8", "batch.size", "is not on the command line"),
        ("run a=1 a=2", "a", "stands 2 times"),
    ],
)
def test_what_is_nearly_there_is_named(command: str, flag: str, why: str) -> None:
    with pytest.raises(InvalidInput, match=why):
        flag_value(command, flag)


WORDS = st.sampled_from(
    ["run", "-u", "--c", "--c=1", "x.py", "'a b'", "$X", "8", "a=1", "&&", "|", ";", "--bb", "2>&1"]
)


@given(st.lists(WORDS, max_size=8), st.lists(WORDS, max_size=8), st.sampled_from(["--b 8", "--b=8", "--b='8'"]))
def test_a_turned_flag_is_the_only_difference_or_the_knob_is_dead(
    before: list[str], after: list[str], written: str
) -> None:
    line = " ".join([*before, written, *after])
    try:
        assert flag_value(line, "--b") == 8
    except InvalidInput:
        return
    turned = {"--b 8": "--b 16", "--b=8": "--b=16", "--b='8'": "--b=16"}[written]
    assert with_flag(line, "--b", 16) == " ".join([*before, turned, *after])


def test_numbers_keep_their_kind() -> None:
    assert flag_value("run --lr 1e-4", "--lr") == 1e-4
    assert with_flag("run --lr 1e-4", "--lr", 5e-5) == "run --lr 5e-5"
    assert with_flag("run --lr 0.0001", "--lr", 5e-5) == "run --lr 0.00005"
    assert flag_value("run --name 08", "--name") == "08"
    assert flag_value("run --compile --b 1", "--compile") is True
    assert flag_value("run --shift -3", "--shift") == -3


def test_a_flag_is_taken_away_only_where_it_is_clear_what_belongs_to_it() -> None:
    assert with_flag("run --compile --b 1", "--compile", None) == "run --b 1"
    assert with_flag("run --b=1 -x", "--b", None) == "run -x"
    assert with_flag(("run", "--b=1"), "--b", None) == ("run",)
    with pytest.raises(InvalidInput, match="may or may not own"):
        with_flag("run --compile train.py", "--compile", None)


@given(st.text(st.characters(min_codepoint=32, max_codepoint=0x2FF), max_size=12))
def test_any_value_reaches_the_program_as_it_is(value: str) -> None:
    assert shlex.split(with_flag("run --b 8", "--b", value))[2] == value  # type: ignore[arg-type]
    assert shlex.split(with_flag("run --b=8", "--b", value))[1] == f"--b={value}"  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("command", "after"),
    [
        ("run {config}", "run {config} --resume '/a b'"),
        ("run {config} | tee log", "run {config} --resume '/a b' | tee log"),
        ("run {config} 2>&1 | tee log", "run {config} --resume '/a b' 2>&1 | tee log"),
        ("run {config} > log", "run {config} --resume '/a b' > log"),
        ("cd x && run y | tee log", "cd x && run y --resume '/a b' | tee log"),
        ("source env; run {resume} --x; echo done", "source env; run --resume '/a b' --x; echo done"),
        ("run x  # note", "run x --resume '/a b'  # note"),
        (("run", "x"), ("run", "x", "--resume", "/a b")),
        (("run", "{resume}", "x"), ("run", "--resume", "/a b", "x")),
    ],
)
def test_resume_arguments_go_to_the_program(command: object, after: object) -> None:
    assert with_resume(command, "--resume {checkpoint}", "/a b") == after  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "command",
    [
        *("run a; run b", "run a & run b", "(run a)", "run {config} && eval {config}"),
        # Which of them trains cannot be told.
        *("prepare && run", "run && evaluate", "run x | tee log && evaluate"),
        # What follows a shell's own line never reaches the program in it.
        *('bash -c "run x"', "cd x && /bin/bash -lc 'run x'", "srun -n 2 sh -ec 'run x'", ("bash", "-c", "run x")),
        *("timeout 1h zsh -c 'run $HOME'", "run \\", "bash -x -o pipefail -c 'run x'", "su - train -c 'run x'"),
    ],
)
def test_where_it_cannot_be_told_which_program_is_meant_a_place_is_asked_for(command: Command) -> None:
    with pytest.raises(InvalidInput, match=r"\{resume\}"):
        with_resume(command, "--resume {checkpoint}", "/a")
    assert with_resume(command, "--resume {checkpoint}", None) == command


@pytest.mark.parametrize(
    ("command", "after"),
    [
        ('bash -c "run {resume}"', 'bash -c "run --resume /a"'),
        (("bash", "-c", "run {resume} x"), ("bash", "-c", "run --resume /a x")),
        ("bash -c 'run \"$@\"' -", "bash -c 'run \"$@\"' - --resume /a"),
        ("run\r", "run\r --resume /a"),
        ("bash run.sh -c fast x", "bash run.sh -c fast x --resume /a"),
        ("python -c 'run()' x", "python -c 'run()' x --resume /a"),
    ],
)
def test_a_line_within_a_line_is_given_them_where_it_says_so(command: Command, after: Command) -> None:
    assert with_resume(command, "--resume {checkpoint}", "/a") == after


@pytest.mark.parametrize("command", ['bash -c "run {resume}"', "bash -c 'run {resume}'", 'run "{resume}"'])
def test_what_quotes_cannot_hold_is_refused(command: str) -> None:
    with pytest.raises(InvalidInput, match="in quotes"):
        with_resume(command, "--resume {checkpoint}", "/a b/$(x)/it's")


def test_without_a_checkpoint_nothing_is_appended() -> None:
    assert with_resume("run", "--resume {checkpoint}", None) == "run"
    assert with_resume("run {resume} x", "--resume {checkpoint}", None) == "run  x"
    assert with_resume(("run", "{resume}"), "--resume {checkpoint}", None) == ("run",)
