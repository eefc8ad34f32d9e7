"""The image's root file system under `runc`, with what the chart renders: its user, its read-only
root, its capabilities, its seccomp profile, its CPUs.
"""

import os
import unittest

from chart import render
from container import IO_URING, Container, profile
from node import Node

ROOT = os.environ["IMAGE_ROOT"]
CPUS = str(min(os.sched_getaffinity(0)))
# The preflight's.
EXIT_CONFIG = 2


class Pod(unittest.TestCase):
    def test_the_node_starts_takes_a_write_answers_a_read_and_ends_when_told(self):
        with Container(render(), ROOT, CPUS, profile()) as container:
            node = Node("127.0.0.1:9009")
            node.wait_ready(container.has_ended)
            self.assertEqual(node.write("deploy_check", 21.5)[0], 200)
            self.assertEqual(node.values("deploy_check"), [21.5])
            code, told = container.run_inside("/usr/bin/silverctl", "query", "deploy_check", "--output", "csv")
            self.assertEqual(code, 0, told)
            self.assertIn("21.5", told)

            status = container.status()
            self.assertEqual(status["Uid"].split(), ["65532"] * 4)
            self.assertEqual(status["Cpus_allowed_list"], CPUS)
            self.assertEqual(int(status["CapBnd"], 16), 0)
            self.assertEqual((status["NoNewPrivs"], status["Seccomp"]), ("1", "2"))
            self.assertIn("85 % of the cgroup's 4096 MiB", container.said())

            self.assertEqual(container.terminate(), 0, container.said())
            self.assertIn("silverback has stopped", container.said())

    def test_a_profile_without_io_uring_is_told_with_what_to_do(self):
        with Container(render(), ROOT, CPUS, profile(without=IO_URING)) as container:
            self.assertEqual(container.wait(), EXIT_CONFIG)
            for part in ("io_uring is forbidden to this container", "seccomp", "io_uring_setup"):
                self.assertIn(part, container.said())

    def test_a_volume_that_the_group_may_not_write_to_is_told_with_what_to_do(self):
        with Container(render(), ROOT, CPUS, profile(), volume_group=1) as container:
            self.assertEqual(container.wait(), EXIT_CONFIG)
            self.assertIn("make it writable for this user", container.said())

    def test_too_little_lockable_memory_is_told_with_what_to_do(self):
        with Container(render(), ROOT, CPUS, profile(), memlock_bytes=64 << 10) as container:
            self.assertEqual(container.wait(), EXIT_CONFIG)
            for part in ("only 64 KiB of memory may be locked", "LimitMEMLOCK="):
                self.assertIn(part, container.said())
