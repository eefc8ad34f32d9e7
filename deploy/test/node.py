"""A running node, spoken to as its senders and probes do."""

import json
import time
import urllib.error
import urllib.request

STARTED_WITHIN_S = 30


class Node:
    """A node at an address of this machine; with an SSL context it is asked over TLS, with these headers besides."""

    def __init__(self, address, tls=None, headers=None):
        self.address = address
        self.scheme = "https" if tls else "http"
        self.tls = tls
        self.headers = headers or {}

    def get(self, path, host=None):
        """Status and text of an answer, by its address or by a name that leads there."""
        return self._ask(path, {"Host": host} if host else {})

    def wait_ready(self, has_ended):
        """Waits until it is ready; gives up when the process ends, or after a while."""
        deadline = time.monotonic() + STARTED_WITHIN_S
        while time.monotonic() < deadline and not has_ended():
            try:
                if self.get("/-/ready")[0] == 200:
                    return
            except OSError:
                pass  # It doesn't listen yet.
            time.sleep(0.05)
        raise AssertionError("the node didn't become ready")

    def write(self, name, value):
        """Stores a sample of now, over OTLP."""
        point = {"asDouble": value, "timeUnixNano": str(time.time_ns())}
        metric = {"name": name, "gauge": {"dataPoints": [point]}}
        body = {"resourceMetrics": [{"scopeMetrics": [{"metrics": [metric]}]}]}
        return self._ask("/v1/metrics", {"Content-Type": "application/json"}, json.dumps(body).encode())

    def values(self, selector):
        """All that is stored of the series that a selector names."""
        return [value for series in self._export(selector) for value in series["values"]]

    def times_s(self, selector):
        """When each of these values was taken."""
        return [time_ms / 1000 for series in self._export(selector) for time_ms in series["timestamps"]]

    def _export(self, selector):
        status, text = self.get("/api/v1/export?match[]=" + urllib.request.quote(selector))
        assert status == 200, text
        return [json.loads(line) for line in text.splitlines()]

    def _ask(self, path, headers, data=None):
        url = f"{self.scheme}://{self.address}{path}"
        request = urllib.request.Request(url, data=data, headers=self.headers | headers)
        try:
            with urllib.request.urlopen(request, timeout=10, context=self.tls) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()
