"""How the cluster's programs are named, as far as that shows without building them."""

import subprocess
import unittest

from chart import DEPLOY

REWRITE = DEPLOY / "test/kubernetes/go.mod.sed"
# As they are in Kubernetes' own go.mod, with what is to become of them.
LINES = [
    ("module k8s.io/kubernetes", "module silverback/cluster"),
    ("\tk8s.io/api v0.0.0", "\tk8s.io/api @PUBLISHED@"),
    ("\tk8s.io/cri-api v0.0.0 // indirect", "\tk8s.io/cri-api @PUBLISHED@ // indirect"),
    # Commits of repositories of their own.
    ("\tk8s.io/kube-openapi v0.0.0-20260317180543-43fb72c5454a", None),
    ("\tk8s.io/utils v0.0.0-20260210185600-b8788abfbbc2 // indirect", None),
    ("\tk8s.io/klog/v2 v2.140.0", None),
    ("\tgithub.com/munnerz/goautoneg v0.0.0-20191010083416-a7dc8b61c822", None),
    ("\tk8s.io/api => ./staging/src/k8s.io/api", "\tk8s.io/api => k8s.io/api @PUBLISHED@"),
]


class Module(unittest.TestCase):
    def test_only_kubernetes_own_parts_get_the_published_version(self):
        given = [line for line, _ in LINES] + ["\tk8s.io/sample-apiserver v0.0.0"]
        expected = [becomes or line for line, becomes in LINES]
        ended = subprocess.run(
            ["sed", "-E", "-f", REWRITE], input="\n".join(given), capture_output=True, text=True, check=True
        )
        self.assertEqual(ended.stdout.splitlines(), expected)
