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

    # --- inside ---------------------------------------------------------------------------------------------------

    def _json(self, method: str, path: str, **how: Any) -> Any:
        """The JSON that the daemon answers; the client's own."""
        raise NotImplementedError


def quoted(part: str) -> str:
    """One part of a path, whatever stands in it."""
    return quote(part, safe="")
