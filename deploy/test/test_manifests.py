"""The chart's objects: that Kubernetes knows them, and that they promise what they should."""

import json
import re
import unittest
from fnmatch import fnmatch

import kubernetes_validate
import yaml

from chart import (
    CHART,
    DEPLOY,
    KUBERNETES_VERSIONS,
    NAMESPACE,
    VALUES,
    helm,
    node_container,
    notes,
    only,
    pod,
    render,
    render_file,
)

# Objects of operators: their schemas come with the operators, not with Kubernetes.
FOREIGN = {"ServiceMonitor", "PrometheusRule", "SeccompProfile", "HTTPRoute"}


class Schemas(unittest.TestCase):
    def test_every_object_holds_to_the_schemas_of_three_versions(self):
        skipped = set()
        for version in KUBERNETES_VERSIONS:
            for values in VALUES:
                for rendered in render_file(values, version):
                    with self.subTest(version=version, values=values.name, kind=rendered["kind"]):
                        if rendered["kind"] in FOREIGN:
                            skipped.add(rendered["kind"])
                        else:
                            kubernetes_validate.validate(rendered, version, strict=True)
        print(f"not checked against a schema, for Kubernetes has none: {', '.join(sorted(skipped))}")

    def test_an_unknown_field_would_be_found(self):
        service = only(render(), "Service", "-pods")
        service["spec"]["selektor"] = {}
        with self.assertRaises(kubernetes_validate.ValidationError):
            kubernetes_validate.validate(service, KUBERNETES_VERSIONS[-1], strict=True)


class Thanos(unittest.TestCase):
    """The files that put nodes behind Thanos."""

    def setUp(self):
        self.nodes = render_file(DEPLOY / "thanos/values.yaml")
        self.thanos = list(yaml.safe_load_all((DEPLOY / "thanos/kubernetes.yaml").read_text()))

    def test_every_object_holds_to_the_schemas_of_three_versions(self):
        for version in KUBERNETES_VERSIONS:
            for thing in [*self.thanos, *render_file(DEPLOY / "thanos/values.yaml", version)]:
                with self.subTest(version=version, kind=thing["kind"]):
                    kubernetes_validate.validate(thing, version, strict=True)

    def test_the_ring_has_each_pod_by_a_name_that_the_node_allows(self):
        # The guide installs it under this name.
        objects = render("--values", DEPLOY / "thanos/values.yaml", "--set", "fullnameOverride=silverback")
        stateful = only(objects, "StatefulSet")
        pods, replicas = stateful["spec"]["serviceName"], stateful["spec"]["replicas"]
        (ring,) = json.loads(only(self.thanos, "ConfigMap", "hashring")["data"]["hashrings.json"])
        names = [f"silverback-{number}.{pods}.{NAMESPACE}.svc.cluster.local" for number in range(replicas)]
        self.assertEqual(ring["endpoints"], [f"{name}:9009" for name in names])
        allowed = yaml.safe_load(only(objects, "ConfigMap")["data"]["node.yaml"])["allowed-hosts"]
        for name in names:
            self.assertTrue(any(fnmatch(name, pattern) for pattern in allowed), name)

    def test_as_many_copies_as_the_router_makes_run_on_machines_of_their_own(self):
        router = only(self.thanos, "Deployment", "router")["spec"]["template"]["spec"]["containers"][0]
        replicas = only(self.nodes, "StatefulSet")["spec"]["replicas"]
        self.assertIn(f"--receive.replication-factor={replicas}", router["args"])
        self.assertIn("podAntiAffinity", pod(self.nodes)["spec"]["affinity"])

    def test_the_label_of_copies_is_the_one_that_query_leaves_out(self):
        query = only(self.thanos, "Deployment", "query")["spec"]["template"]["spec"]["containers"][0]
        config = yaml.safe_load(only(self.nodes, "ConfigMap")["data"]["node.yaml"])
        self.assertIn(f"--query.replica-label={config['replica-label']}", query["args"])


class Values(unittest.TestCase):
    def refuse(self, setting, complaint):
        done, text = helm("template", "sb", CHART, "--kube-version", "1.36.0", "--set", setting)
        self.assertFalse(done, setting)
        self.assertIn(complaint, text)

    def test_wrong_values_are_refused_by_the_schema(self):
        self.refuse("config.retension=2h", "retension")
        self.refuse("config.listen=:1", "listen")
        self.refuse("replica=3", "replica")
        self.refuse("terminationGracePeriodSeconds=30", "terminationGracePeriodSeconds")
        self.refuse("seccomp.profile=Default", "seccomp")
        self.refuse("image.digest=latest", "digest")
        self.refuse("allowedHosts={tsdb.example.com:9009}", "allowedHosts")
        self.refuse("config.allowed-hosts={tsdb.example.com}", "allowed-hosts")
        self.refuse("networkPolicy.from={everybody}", "networkPolicy")
        self.refuse("podDisruptionBudget.maxUnavailable=0", "maxUnavailable")
        self.refuse("podDisruptionBudget.maxUnavailable=0%", "maxUnavailable")
        self.refuse(r"podLabels.app\.kubernetes\.io/component=mine", "app.kubernetes.io/component")
        self.refuse("podAnnotations.silverback/config-sha256=mine", "silverback/config-sha256")

    def test_a_stop_that_may_take_longer_than_the_pod_is_given_is_refused(self):
        for grace, refused in ((300, True), (1215, True), (1216, False)):
            settings = f"terminationGracePeriodSeconds={grace},config.shutdown-timeout=9m60s"
            with self.subTest(grace=grace):
                if refused:
                    self.refuse(settings, "twice config.shutdown-timeout and five seconds together, 1215")
                else:
                    render("--set", settings)

    def test_what_is_shipped_at_the_end_has_its_time(self):
        for grace, refused in ((375, True), (376, False)):
            settings = f"terminationGracePeriodSeconds={grace},config.shutdown-timeout=2m,config.ship-on-shutdown=on"
            with self.subTest(grace=grace):
                if refused:
                    self.refuse(settings, "three times config.shutdown-timeout and five seconds together, 375")
                else:
                    render("--set", settings)

    def test_a_cluster_that_is_too_old_is_refused(self):
        done, text = helm("template", "sb", CHART, "--kube-version", "1.29.0")
        self.assertFalse(done)
        self.assertIn("incompatible", text)


class Pod(unittest.TestCase):
    def setUp(self):
        self.objects = render()
        self.spec = pod(self.objects)["spec"]
        self.container = node_container(self.objects)

    def test_the_pod_is_guaranteed_whole_cpus(self):
        resources = self.container["resources"]
        self.assertEqual(resources["requests"], resources["limits"])
        self.assertIsInstance(resources["limits"]["cpu"], int)

    def test_pod_security_s_restricted_profile_holds(self):
        context, own = self.spec["securityContext"], self.container["securityContext"]
        self.assertIs(context["runAsNonRoot"], True)
        self.assertEqual(context["seccompProfile"]["type"], "Localhost")
        self.assertIs(own["allowPrivilegeEscalation"], False)
        self.assertIs(own["readOnlyRootFilesystem"], True)
        self.assertEqual(own["capabilities"], {"drop": ["ALL"]})
        self.assertEqual([sorted(volume) for volume in self.spec["volumes"]], [["configMap", "name"]])

    def test_the_cluster_s_api_and_its_variables_stay_outside(self):
        self.assertIs(self.spec["automountServiceAccountToken"], False)
        self.assertIs(self.spec["enableServiceLinks"], False)
        self.assertIs(only(self.objects, "ServiceAccount")["automountServiceAccountToken"], False)

    def test_a_drain_has_the_time_that_it_may_take(self):
        before_s = self.container["lifecycle"]["preStop"]["sleep"]["seconds"]
        config = only(self.objects, "ConfigMap")["data"]["node.yaml"]
        self.assertIn("shutdown-timeout: 60s", config)
        self.assertGreaterEqual(self.spec["terminationGracePeriodSeconds"], 300)
        self.assertGreater(self.spec["terminationGracePeriodSeconds"], before_s + 2 * 60 + 5)

    def test_nothing_restarts_a_replay_for_half_an_hour(self):
        startup = self.container["startupProbe"]
        self.assertEqual(startup["httpGet"]["path"], "/-/replayed")
        self.assertGreaterEqual(startup["periodSeconds"] * startup["failureThreshold"], 1800)
        self.assertEqual(self.container["livenessProbe"]["httpGet"]["path"], "/-/healthy")

    def test_a_pod_that_takes_no_writes_stays_in_its_service_and_isn_t_restarted(self):
        for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
            with self.subTest(probe=probe):
                self.assertNotEqual(self.container[probe]["httpGet"]["path"], "/-/ready")

    def test_a_changed_option_restarts_the_pods_and_a_changed_service_doesn_t(self):
        same = pod(render("--set", "service.port=80"))
        other = pod(render("--set", "config.retention=2h"))
        self.assertEqual(pod(self.objects), same)
        self.assertNotEqual(pod(self.objects), other)

    def test_the_volumes_stay_and_never_hinder_an_upgrade(self):
        claim = only(self.objects, "StatefulSet")["spec"]["volumeClaimTemplates"]
        newer = only(render("--set", "image.tag=9.9.9"), "StatefulSet")["spec"]
        self.assertEqual(claim, newer["volumeClaimTemplates"])
        self.assertEqual(
            newer["persistentVolumeClaimRetentionPolicy"], {"whenDeleted": "Retain", "whenScaled": "Retain"}
        )


class Reach(unittest.TestCase):
    def ingress(self, *settings):
        words = (word for setting in settings for word in ("--set-json", setting))
        return only(render(*words), "NetworkPolicy")["spec"]["ingress"]

    def names(self, *settings):
        words = (word for setting in settings for word in ("--set", setting))
        config = only(render("--set", "fullnameOverride=silverback", *words), "ConfigMap")["data"]["node.yaml"]
        return yaml.safe_load(config)["allowed-hosts"]

    def test_by_default_only_pods_of_the_namespace_reach_it(self):
        ports = [{"port": "http"}]
        self.assertEqual(self.ingress(), [{"ports": ports, "from": [{"podSelector": {}}]}])
        monitoring = '{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}'
        (both,) = self.ingress(f"networkPolicy.from=[{monitoring}]")
        self.assertEqual([list(peer) for peer in both["from"]], [["podSelector"], ["namespaceSelector"]])
        (one,) = self.ingress(f"networkPolicy.from=[{monitoring}]", "networkPolicy.fromSameNamespace=false")
        self.assertEqual([list(peer) for peer in one["from"]], [["namespaceSelector"]])

    def test_nobody_named_is_nobody_and_not_everybody(self):
        self.assertEqual(self.ingress("networkPolicy.fromSameNamespace=false"), [])

    def test_whoever_installs_it_is_told_who_reaches_it(self):
        self.assertIn("Only pods of default reach it", notes())
        self.assertIn("Nobody reaches it", notes("--set", "networkPolicy.fromSameNamespace=false"))
        self.assertIn("WARNING: no NetworkPolicy", notes("--set", "networkPolicy.enabled=false"))

    def test_every_name_of_its_services_and_pods_is_allowed(self):
        names = self.names()
        for rest in ("", ".ingest", ".ingest.svc", ".ingest.svc.cluster.local"):
            for name in ("silverback", "silverback-pods", "silverback-0.silverback-pods"):
                self.assertTrue(any(fnmatch(name + rest, allowed) for allowed in names), name + rest)
        for other in ("silverback.other", "silverback.ingest.svc.evil.example", "evil.example"):
            self.assertFalse(any(fnmatch(other, allowed) for allowed in names), other)
        self.assertIn("silverback.ingest.svc.k8s.example", self.names("clusterDomain=k8s.example"))
        self.assertIn("*.example.com", self.names("allowedHosts={*.example.com}"))

    def test_every_name_that_the_guides_and_senders_use_is_allowed(self):
        files = [DEPLOY / "README.md", *sorted((DEPLOY / "senders").iterdir())]
        hosts = {host for file in files for host in re.findall(r"http://([\w.-]+):9009", file.read_text())}
        hosts -= {"127.0.0.1"}
        self.assertLessEqual({"silverback.ingest.svc", "silverback-0.silverback-pods.ingest.svc"}, hosts)
        for host in hosts:
            self.assertTrue(any(fnmatch(host, allowed) for allowed in self.names()), host)


class Outside(unittest.TestCase):
    def setUp(self):
        self.objects = render_file(DEPLOY / "test/values/outside.yaml")

    def test_an_ingress_and_a_route_lead_to_the_service_and_their_names_are_allowed(self):
        (service,) = {o["metadata"]["name"] for o in self.objects if o["kind"] == "Service"} - {"sb-silverback-pods"}
        (rule,) = only(self.objects, "Ingress")["spec"]["rules"]
        self.assertEqual(rule["host"], "tsdb.example.com")
        self.assertEqual(rule["http"]["paths"][0]["backend"]["service"], {"name": service, "port": {"name": "http"}})
        route = only(self.objects, "HTTPRoute")["spec"]
        self.assertEqual(route["rules"], [{"backendRefs": [{"name": service, "port": 9009}]}])
        names = yaml.safe_load(only(self.objects, "ConfigMap")["data"]["node.yaml"])["allowed-hosts"]
        outside = [name for name in names if name.endswith(".example") or name.endswith(".com")]
        self.assertEqual(outside, ["tsdb.internal.example", "tsdb.example.com", "*.tsdb.example.com"])

    def test_what_is_extra_stands_beside_the_node_s_own(self):
        spec = pod(self.objects)["spec"]
        node, proxy = spec["containers"]
        self.assertEqual((node["name"], proxy["name"]), ("silverback", "proxy"))
        self.assertEqual(node["env"], [{"name": "TZ", "value": "UTC"}])
        self.assertEqual([mount["name"] for mount in node["volumeMounts"]], ["data", "config", "scratch"])
        self.assertEqual([volume["name"] for volume in spec["volumes"]], ["config", "scratch"])

    def test_certificates_users_and_tokens_come_from_secrets_and_probes_have_a_port_of_their_own(self):
        objects = render(
            *("--set", "tls.secretName=silverback-tls", "--set", "tls.clientAuthType=RequireAndVerifyClientCert"),
            *("--set", "access.secretName=silverback-access", "--set", "access.accessKey=access.yml"),
            *("--set", "serviceMonitor.enabled=true"),
        )
        data = only(objects, "ConfigMap", "silverback")["data"]
        config, web = yaml.safe_load(data["node.yaml"]), yaml.safe_load(data["web.yml"])
        self.assertEqual(config["web-config-file"], "/etc/silverback/web.yml")
        self.assertEqual(config["access-file"], "/etc/silverback-access/access.yml")
        self.assertEqual(config["probe-listen"], ["0.0.0.0:9010"])
        self.assertEqual(web["tls_server_config"]["client_ca_file"], "/etc/silverback-tls/ca.crt")
        spec = pod(objects)["spec"]
        secrets = {v["name"]: v["secret"]["secretName"] for v in spec["volumes"] if "secret" in v}
        self.assertEqual(secrets, {"tls": "silverback-tls", "access": "silverback-access"})
        (container,) = spec["containers"]
        for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
            self.assertEqual(container[probe]["httpGet"]["port"], "probes")
        (endpoint,) = only(objects, "ServiceMonitor")["spec"]["endpoints"]
        self.assertEqual(endpoint["scheme"], "https")
        own = render("--set", "access.secretName=s", "--set", "access.webConfigKey=web.yml")
        config = yaml.safe_load(only(own, "ConfigMap", "silverback")["data"]["node.yaml"])
        self.assertEqual(config["web-config-file"], "/etc/silverback-access/web.yml")
        done, told = helm("template", "sb", CHART, "--kube-version", "1.36.0", "--set", "access.accessKey=access.yml")
        self.assertFalse(done)
        self.assertIn("access.secretName", told)

    def test_a_bucket_s_file_comes_from_a_secret_and_takes_labels(self):
        objects = render("--set", "objstore.secretName=bucket", "--set", "config.replica-label=replica")
        config = yaml.safe_load(only(objects, "ConfigMap", "silverback")["data"]["node.yaml"])
        self.assertEqual(config["objstore-config-file"], "/etc/silverback-objstore/objstore.yml")
        spec = pod(objects)["spec"]
        (secret,) = [volume["secret"] for volume in spec["volumes"] if "secret" in volume]
        self.assertEqual(secret, {"secretName": "bucket", "defaultMode": 0o440})
        (container,) = spec["containers"]
        (mount,) = [mount for mount in container["volumeMounts"] if mount["name"] == "objstore"]
        self.assertEqual((mount["mountPath"], mount["readOnly"]), ("/etc/silverback-objstore", True))
        ports = {port["port"] for rule in only(objects, "NetworkPolicy")["spec"]["egress"] for port in rule["ports"]}
        self.assertEqual(ports, {53, 80, 443})
        self.assertEqual(only(render(), "NetworkPolicy")["spec"]["egress"], [])
        done, told = helm("template", "sb", CHART, "--kube-version", "1.36.0", "--set", "objstore.secretName=bucket")
        self.assertFalse(done)
        self.assertIn("config.external-labels or config.replica-label", told)

    def test_a_way_in_that_names_no_host_or_leads_to_several_nodes_is_refused(self):
        for settings, complaint in (
            ("ingress.enabled=true", "hosts"),
            ("httpRoute.enabled=true,httpRoute.hostnames={a.example}", "parentRefs"),
            ("ingress.enabled=true,ingress.hosts={a.example},replicas=2,unroutedReplicas=true", "would spread"),
        ):
            done, text = helm("template", "sb", CHART, "--kube-version", "1.36.0", "--set", settings)
            self.assertFalse(done, settings)
            self.assertIn(complaint, text)


class Replicas(unittest.TestCase):
    SEVERAL = ("--set", "replicas=2,unroutedReplicas=true,fullnameOverride=tsdb")

    def services(self, *arguments):
        return {o["metadata"]["name"] for o in render(*arguments) if o["kind"] == "Service"}

    def test_several_nodes_are_refused_with_the_reason_until_somebody_knows_it(self):
        done, text = helm("template", "sb", CHART, "--kube-version", "1.36.0", "--set", "replicas=3")
        self.assertFalse(done)
        for part in ("replicas is 3", "a node of its own", "nowhere whole", "unroutedReplicas=true"):
            self.assertIn(part, text)
        self.assertEqual(only(render(*self.SEVERAL), "StatefulSet")["spec"]["replicas"], 2)
        self.assertEqual(only(render("--set", "replicas=0"), "StatefulSet")["spec"]["replicas"], 0)

    def test_no_service_spreads_one_series_over_several_nodes(self):
        self.assertEqual(self.services("--set", "fullnameOverride=tsdb"), {"tsdb", "tsdb-pods"})
        self.assertEqual(self.services(*self.SEVERAL), {"tsdb-pods"})

    def test_whoever_installs_several_is_told_each_one_s_url(self):
        told = notes(*self.SEVERAL)
        for number in (0, 1):
            self.assertIn(f"http://tsdb-{number}.tsdb-pods.default.svc:9009/api/v1/write", told)
        self.assertNotIn("http://tsdb.default.svc", told)
        self.assertIn("http://tsdb.default.svc:9009/api/v1/write", notes("--set", "fullnameOverride=tsdb"))


class Monitoring(unittest.TestCase):
    def config(self, *settings):
        text = only(render(*(word for setting in settings for word in ("--set", setting))), "ConfigMap")["data"]
        return yaml.safe_load(text["node.yaml"])

    def test_the_job_is_the_alerts_own_whatever_the_release_is_called(self):
        objects = render("--set", "serviceMonitor.enabled=true,nameOverride=tsdb")
        monitor = only(objects, "ServiceMonitor")["spec"]
        self.assertNotIn("jobLabel", monitor)
        (endpoint,) = monitor["endpoints"]
        self.assertEqual(endpoint["relabelings"], [{"targetLabel": "job", "replacement": "silverback"}])
        labels = only(objects, "Service", "-pods")["metadata"]["labels"]
        self.assertLessEqual(monitor["selector"]["matchLabels"].items(), labels.items())

    def test_a_node_that_is_scraped_stores_no_metrics_of_its_own_unless_told_to(self):
        scraped, told = "serviceMonitor.enabled=true", "config.self-scrape-interval=15s"
        self.assertNotIn("self-scrape-interval", self.config())
        self.assertEqual(self.config(scraped)["self-scrape-interval"], "0s")
        self.assertEqual(self.config(scraped, told)["self-scrape-interval"], "15s")


class Notes(unittest.TestCase):
    def test_a_service_that_is_reached_from_outside_is_warned_of(self):
        warning = "the node asks for\nno credentials, and has no TLS"
        self.assertNotIn(warning, notes())
        for kind in ("LoadBalancer", "NodePort"):
            self.assertIn(warning, notes("--set", f"service.type={kind}"))


class Seccomp(unittest.TestCase):
    def profile(self, objects):
        return pod(objects)["spec"]["securityContext"]["seccompProfile"]

    def test_the_installer_puts_the_file_where_the_pod_looks_for_it(self):
        objects = render()
        (container,) = only(objects, "DaemonSet")["spec"]["template"]["spec"]["containers"]
        target = container["args"][container["args"].index("--install") + 1]
        self.assertEqual(target, "/kubelet-seccomp/" + self.profile(objects)["localhostProfile"])

    def test_the_operator_s_object_has_the_pod_s_profile(self):
        objects = render("--set", "seccomp.install=operator")
        spec = only(objects, "SeccompProfile")
        name = f"operator/{spec['metadata']['name']}.json"
        self.assertEqual(self.profile(objects), {"type": "Localhost", "localhostProfile": name})
        allowed = {name for rule in spec["spec"]["syscalls"] for name in rule["names"]}
        self.assertLessEqual({"io_uring_setup", "io_uring_enter", "io_uring_register", "read"}, allowed)

    def test_without_a_profile_of_its_own_nothing_is_installed(self):
        objects = render("--set", "seccomp.profile=RuntimeDefault")
        self.assertEqual(self.profile(objects), {"type": "RuntimeDefault"})
        self.assertNotIn("DaemonSet", {o["kind"] for o in objects})
