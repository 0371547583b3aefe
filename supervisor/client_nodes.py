"""The client's calls about nodes."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from supervisor.model.node import NodeSpec


class NodeCalls:
    """The part of the client that is about nodes rather than runs."""

    def nodes(self) -> list[dict[str, Any]]:
        """All nodes."""
        return list(self._json("GET", "/api/v1/nodes")["items"])

    def node(self, name: str) -> dict[str, Any]:
        """One node; NotFound."""
        return dict(self._json("GET", f"/api/v1/nodes/{quoted(name)}"))

    def add_node(self, spec: NodeSpec) -> dict[str, Any]:
        """A new node; Conflict where the name is taken."""
        return dict(self._json("POST", "/api/v1/nodes", json=spec.model_dump(mode="json")))

    def remove_node(self, name: str, *, anyway: bool = False) -> dict[str, Any]:
        """Forgets a node on which no run lives: `{"name", "removed", "stays"}`."""
        query = {"anyway": "true"} if anyway else {}
        return dict(self._json("DELETE", f"/api/v1/nodes/{quoted(name)}", params=query, timeout=120.0))

    def check_node(self, name: str) -> list[dict[str, Any]]:
        """Rows `{"what", "ok", "found", "mend"}`."""
        answer = self._json("POST", f"/api/v1/nodes/{quoted(name)}:check", timeout=120.0)
        return list(answer["rows"])

    def check_spec(self, spec: NodeSpec, paths: Mapping[str, str]) -> list[dict[str, Any]]:
        """The same for a node as described here, and for the run's folders `workdir` and `checkpoint` on it."""
        body = spec.model_dump(mode="json")
        answer = self._json("POST", "/api/v1/nodes:check", json=body, params=dict(paths), timeout=120.0)
        return list(answer["rows"])

    def host_key(self, spec: NodeSpec) -> dict[str, str]:
        """`{"fingerprint", "line"}` of the key that the node's sshd shows."""
        return dict(self._json("POST", "/api/v1/nodes:host-key", json=spec.model_dump(mode="json"), timeout=60.0))

    def own_key(self, spec: NodeSpec) -> dict[str, Any]:
        """`{"line", "accepted"}`: the daemon's own public key, and whether the node's login lets it in."""
        return dict(self._json("POST", "/api/v1/nodes:key", json=spec.model_dump(mode="json"), timeout=60.0))

    def hold_all(self, node: str | None = None, *, why: str | None = None, until: str | None = None) -> dict[str, Any]:
        """Only watches all runs of a node, or of all nodes. Answers the node, or the list of holds."""
        return dict(self._json("POST", _held(node, "hold"), json=given({"why": why, "until": until})))

    def release_all(self, node: str | None = None, *, why: str | None = None) -> dict[str, Any]:
        """Takes that back."""
        return dict(self._json("POST", _held(node, "release"), json=given({"why": why})))

    # --- inside ---------------------------------------------------------------------------------------------------

    def _json(self, method: str, path: str, **how: Any) -> Any:
        """The JSON that the daemon answers; the client's own."""
        raise NotImplementedError


def quoted(part: str) -> str:
    """One part of a path, whatever stands in it."""
    return quote(part, safe="")


def given(values: Mapping[str, Any]) -> dict[str, Any]:
    """What is not None of it: a body or a query names only what was said."""
    return {key: value for key, value in values.items() if value is not None}


def _held(node: str | None, call: str) -> str:
    return f"/api/v1/runs:{call}" if node is None else f"/api/v1/nodes/{quoted(node)}:{call}"
