"""Prometheus: what `/metrics` shows. Names are fixed by docs/api.md; base units; never a label that grows with time."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import prometheus_client
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily
from prometheus_client.metrics_core import Metric

from supervisor.model.run import NodeView, Run, RunState

CONTENT_TYPE = prometheus_client.CONTENT_TYPE_LATEST
REQUESTS = prometheus_client.Counter("vigil_http_requests", "Answered requests.", ["route", "method", "status"])
REQUEST_SECONDS = prometheus_client.Histogram(
    "vigil_http_request_duration_seconds",
    "Time to answer a request.",
    ["route"],
    buckets=(0.001, 0.005, 0.02, 0.1, 0.5, 2, 10, 60),
)


def exposition(version: str, runs: Sequence[Run], nodes: Sequence[NodeView]) -> bytes:
    """The text of `/metrics`: this moment's runs and nodes, then what the process itself counts."""
    registry = prometheus_client.CollectorRegistry()
    registry.register(_Moment([*_build(version), *_runs(runs), *_nodes(nodes)]))
    return prometheus_client.generate_latest(registry) + prometheus_client.generate_latest(prometheus_client.REGISTRY)


class _Moment:
    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = list(families)

    def collect(self) -> Iterator[Metric]:
        yield from self._families


def _build(version: str) -> Iterator[Metric]:
    build = InfoMetricFamily("vigil_build", "The version of Vigil.")
    build.add_metric([], {"version": version})
    yield build


def _runs(runs: Sequence[Run]) -> Iterator[Metric]:
    by_state = Counter(run.state for run in runs)
    states = GaugeMetricFamily("vigil_runs", "Runs by state.", labels=["state"])
    for state in RunState:
        states.add_metric([state.value], by_state[state])
    yield states

    labels = ["run", "node"]
    states_of = GaugeMetricFamily("vigil_run_state", "1 for the state that the run is in.", labels=[*labels, "state"])
    verdict = GaugeMetricFamily("vigil_run_verdict", "1 for the verdict's cause.", labels=[*labels, "cause", "retry"])
    restarts = CounterMetricFamily("vigil_run_restarts", "Attempts after the first.", labels=labels)
    gauges = {
        "step": GaugeMetricFamily("vigil_run_step", "Last completed step.", labels=labels),
        "total_steps": GaugeMetricFamily("vigil_run_total_steps", "Steps in all, where known.", labels=labels),
        "rate_per_s": GaugeMetricFamily("vigil_run_steps_per_second", "Steps per second.", labels=labels),
        "tokens_per_s": GaugeMetricFamily("vigil_run_tokens_per_second", "Tokens per second.", labels=labels),
        "loss": GaugeMetricFamily("vigil_run_loss", "Last loss.", labels=labels),
        "eta_s": GaugeMetricFamily("vigil_run_eta_seconds", "Time to the last step, as it looks.", labels=labels),
    }
    for run in _newest_of_each_name(runs):
        names = [run.name, run.node]
        states_of.add_metric([*names, run.state.value], 1)
        restarts.add_metric(names, run.restarts)
        if run.verdict:
            verdict.add_metric([*names, run.verdict.cause, run.verdict.retry.value], 1)
        for field, family in gauges.items():
            value = getattr(run.progress, field)
            if value is not None:
                family.add_metric(names, value)
    yield from (states_of, verdict, restarts)
    yield from gauges.values()


def _newest_of_each_name(runs: Sequence[Run]) -> Iterable[Run]:
    """A name is free again once its run has ended, and no two samples may have the same labels."""
    newest: dict[str, Run] = {}
    for run in sorted(runs, key=lambda run: run.created_at):
        newest[run.name] = run
    return newest.values()


def _nodes(nodes: Sequence[NodeView]) -> Iterator[Metric]:
    up = GaugeMetricFamily("vigil_node_up", "1 while Vigil sees the node.", labels=["node"])
    seen = GaugeMetricFamily("vigil_node_last_seen_timestamp_seconds", "When the node last answered.", labels=["node"])
    for view in nodes:
        up.add_metric([view.spec.name], 1 if view.link.ok else 0)
        if view.link.last_seen:
            seen.add_metric([view.spec.name], view.link.last_seen.timestamp())
    yield from (up, seen)
