"""Dashboards and alerts against a node: what they ask for can be parsed, and is there."""

import json
import os
import re
import socket
import ssl
import subprocess
import tempfile
import unittest
from pathlib import Path

import yaml

from certificates import make_certificate
from chart import CHART, DEPLOY, only, render
from node import Node

DASHBOARDS = sorted((CHART / "files/dashboards").glob("*.json"))
ALERTS = CHART / "files/alerts.yaml"
GRAFANA_VARIABLES = {"$__rate_interval": "5m", "$__range": "3h", "$job": "silverback", "$instance": ".+"}
# What Prometheus itself makes for each target.
OF_THE_SCRAPE = {"up"}


def filled_in(expression):
    """An expression as Grafana sends it."""
    for variable, value in GRAFANA_VARIABLES.items():
        expression = expression.replace(variable, value)
    return expression


def variables(dashboard):
    """A dashboard's variables whose values Grafana asks for."""
    listed = json.loads(dashboard.read_text())["templating"]["list"]
    return [variable for variable in listed if variable["type"] == "query"]


def query_of(variable):
    """The PromQL of a variable. Only `query_result` sends one: a Prometheus that has its data by remote read
    answers queries, and its endpoints of series and labels don't know what it reads."""
    return re.fullmatch(r"query_result\((.+)\)", variable["query"])[1]


def queries(dashboard):
    """A dashboard's queries, its variables' among them, as Grafana would send them."""
    for variable in variables(dashboard):
        yield filled_in(query_of(variable))
    panels = json.loads(dashboard.read_text())["panels"]
    for expression in (target["expr"] for panel in panels for target in panel.get("targets", [])):
        yield filled_in(expression)


def alerts():
    return yaml.safe_load(ALERTS.read_text())["groups"][0]["rules"]


def named(expression):
    """The metrics that an expression names: a word of theirs, with labels or without."""
    without_labels = re.sub(r"\{[^}]*}", "", expression)
    return set(re.findall(r"\b(?:silverback|process)_\w+|\bup\b", without_labels))


def exported():
    """The metrics of a node with a certificate and a bucket that has just started and refused somebody, with a limit to
    its series."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    with tempfile.TemporaryDirectory(prefix="silverback-metrics-") as directory:
        # One that names nobody: what is known of such files is exported, and no credentials are asked for.
        access = Path(directory) / "access.yml"
        access.write_text("")
        arguments = ["--listen", address, "--data-dir", f"{directory}/data", "--log-level", "error"]
        web = Path(directory) / "web.yml"
        web.write_text("tls_server_config: {cert_file: node.crt, key_file: node.key}\n")
        certificate = make_certificate(directory, "node", "v3_ca", "-addext", "subjectAltName=IP:127.0.0.1")
        arguments += ["--max-series", "1000", "--blocks", "on", "--access-file", str(access), "--web-config-file", str(web)]
        bucket = Path(directory) / "bucket.yml"
        bucket.write_text(f"type: FILESYSTEM\nconfig: {{directory: {directory}/bucket}}\n")
        arguments += ["--objstore-config-file", str(bucket), "--external-labels", "cluster=test"]
        process = subprocess.Popen([os.environ["SILVERBACK"], *arguments])
        try:
            node = Node(address, ssl.create_default_context(cafile=certificate))
            node.wait_ready(lambda: process.poll() is not None)
            # Refused, so that who is refused is exported, too.
            node.get("/api/v1/write")
            _, text = node.get("/metrics")
        finally:
            process.terminate()
            process.wait(30)
    return set(re.findall(r"^([a-z_]+)[{ ]", text, re.MULTILINE))


class Metrics(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.exported = exported() | OF_THE_SCRAPE

    def test_dashboards_name_metrics_that_the_node_exports(self):
        for dashboard in DASHBOARDS:
            for expression in queries(dashboard):
                with self.subTest(dashboard=dashboard.name, expression=expression):
                    self.assertTrue(named(expression))
                    self.assertLessEqual(named(expression), self.exported)

    def test_alerts_name_metrics_that_the_node_exports(self):
        for rule in alerts():
            with self.subTest(alert=rule["alert"]):
                self.assertTrue(named(rule["expr"]))
                self.assertLessEqual(named(rule["expr"]), self.exported)

    def test_a_metric_that_isn_t_exported_would_be_found(self):
        self.assertFalse(named("rate(silverback_sample_total[5m])") <= self.exported)


class Queries(unittest.TestCase):
    def promtool(self, rules):
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
            yaml.safe_dump({"groups": [{"name": "queries", "rules": rules}]}, file)
            file.flush()
            ended = subprocess.run(["promtool", "check", "rules", file.name], capture_output=True, text=True)
        return ended.returncode == 0, ended.stdout + ended.stderr

    def test_prometheus_takes_the_dashboards_queries(self):
        for dashboard in DASHBOARDS:
            rules = [{"record": f"query:{n}", "expr": text} for n, text in enumerate(queries(dashboard))]
            taken, told = self.promtool(rules)
            self.assertTrue(taken, told)

    def test_a_query_that_isn_t_one_would_be_found(self):
        self.assertFalse(self.promtool([{"record": "query:0", "expr": "rate(up)"}])[0])


class Variables(unittest.TestCase):
    def test_each_takes_its_own_label_out_of_an_answer(self):
        for dashboard in DASHBOARDS:
            self.assertEqual([variable["name"] for variable in variables(dashboard)], ["job", "instance"])
            for variable in variables(dashboard):
                # As Grafana writes a row of an answer: labels, value, time.
                row = '{%s="silverback-0:9009"} 1 1795370000000' % variable["name"]
                found = re.search(re.fullmatch("/(.+)/", variable["regex"])[1], row)
                self.assertEqual(found and found[1], "silverback-0:9009", variable["query"])

    def test_a_variable_that_asks_for_labels_would_be_found(self):
        with self.assertRaises(TypeError):
            query_of({"query": "label_values(silverback_build_info, job)"})


class Runbooks(unittest.TestCase):
    def test_each_alert_has_a_runbook_and_a_test(self):
        runbooks = set(re.findall(r"^## (\w+)$", (DEPLOY / "RUNBOOKS.md").read_text(), re.MULTILINE))
        tested = (DEPLOY / "test/alerts_test.yaml").read_text()
        names = {rule["alert"] for rule in alerts()}
        self.assertEqual(names, runbooks)
        for rule in alerts():
            self.assertTrue(rule["annotations"]["runbook_url"].endswith("#" + rule["alert"].lower()))
            self.assertIn(f"alertname: {rule['alert']}\n", tested)

    def test_the_chart_s_rules_are_the_tested_ones_and_point_to_the_runbooks_that_were_named(self):
        objects = render("--set", "prometheusRule.enabled=true,prometheusRule.runbooks=https://runbooks.example/s")
        rendered = only(objects, "PrometheusRule")["spec"]["groups"][0]["rules"]
        self.assertEqual([rule["expr"] for rule in rendered], [rule["expr"] for rule in alerts()])
        self.assertEqual(
            rendered[0]["annotations"]["runbook_url"],
            "https://runbooks.example/s#" + rendered[0]["alert"].lower(),
        )


    def test_without_a_place_for_the_runbooks_no_alert_links_to_one(self):
        rules = only(render("--set", "prometheusRule.enabled=true"), "PrometheusRule")["spec"]["groups"][0]["rules"]
        self.assertEqual([rule["alert"] for rule in rules], [rule["alert"] for rule in alerts()])
        for rule in rules:
            self.assertEqual(set(rule["annotations"]), {"summary", "description"}, rule["alert"])


class DashboardObjects(unittest.TestCase):
    def test_each_dashboard_is_a_config_map_that_the_sidecar_finds(self):
        objects = render("--set", "dashboards.enabled=true")
        for dashboard in DASHBOARDS:
            found = only(objects, "ConfigMap", f"-{dashboard.stem}")
            self.assertEqual(found["metadata"]["labels"]["grafana_dashboard"], "1")
            (text,) = found["data"].values()
            self.assertEqual(json.loads(text), json.loads(dashboard.read_text()))
