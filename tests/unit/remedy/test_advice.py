import pytest
from ruamel.yaml import YAML

from supervisor.model.causes import catalogue
from supervisor.remedy.advice import advice
from supervisor.remedy.configuration import configuration_of
from supervisor.remedy.knobs import ladder
from tests.unit.remedy.made import spec


def advised(cause: str, **changes: object) -> str:
    of = spec(**{"knobs": [], **changes})
    configuration = configuration_of(of)
    return advice(of, configuration, cause, ladder(of, configuration))


def test_settings_of_the_run_itself_are_proposed() -> None:
    text = advised("gpu_oom")
    assert text.splitlines()[:3] == [
        "knobs:",
        "  - {key: config.attention.sdpa_chunk, step: halve, min: 1, relieves: [gpu_oom]}",
        '  - {key: args.--batch, step: halve, min: 1, with: args.--accum, keep: "args.--batch * args.--accum", '
        "relieves: [gpu_oom]}",
    ]


def test_a_dead_knob_is_explained_above() -> None:
    knob = {"key": "config.attention.chunk", "step": "halve", "min": 1, "relieves": ["gpu_oom"]}
    assert advised("gpu_oom", knobs=[knob]).startswith("# config.attention.chunk there is no such key (did you mean")


@pytest.mark.parametrize("cause", sorted(catalogue()))
def test_what_is_proposed_can_be_pasted(cause: str) -> None:
    pasted = YAML(typ="safe", pure=True).load(advised(cause))
    assert pasted["knobs"]
    of = spec(knobs=pasted["knobs"])
    assert all(cause in knob.relieves for knob in of.knobs)
    known = [state for state in ladder(of, configuration_of(of)) if state.knob.key != "config.PATH"]
    assert all(state.live for state in known if not state.knob.key.startswith("env."))
