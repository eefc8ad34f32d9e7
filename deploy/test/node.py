"""A running node, spoken to as its senders and probes do."""

import json
import time
import urllib.error
import urllib.request

STARTED_WITHIN_S = 30


class Node:
    """A node at an address of this machine."""

    def __init__(self, address):
        self.address = address

    def get(self, path, host=None):
        """Status and text of an answer, by its address or by a name that leads there."""
        headers = {"Host": host} if host else {}
        return self._ask(urllib.request.Request(f"http://{self.address}{path}", headers=headers))

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
        request = urllib.request.Request(
            f"http://{self.address}/v1/metrics",
            data=json.dumps(body).encode(),
            headers={"Content-Type": "application/json"},
        )
        return self._ask(request)

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

    @staticmethod
    def _ask(request):
        try:
            with urllib.request.urlopen(request, timeout=10) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()
