"""The guides against what they name: messages that the node really has, links that lead somewhere."""

import re
import unittest

from chart import DEPLOY

REPOSITORY = DEPLOY.parent
GUIDE = (DEPLOY / "README.md").read_text()


def anchors(text):
    """The places that a text's headings make."""
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def section(heading):
    return GUIDE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]


class Guides(unittest.TestCase):
    def test_each_message_is_the_node_s_own(self):
        sources = (REPOSITORY / "server").glob("**/src/**/*.rs")
        # Where a long text goes on in the next line, too. Strangers' errors come from the system.
        texts = "\n".join(re.sub(r"\\\n\s*", "", source.read_text()) for source in sources)
        texts += "Address already in use"
        messages = re.findall(r"^\| `([^`]+)` \|", section("Why it doesn't start"), re.MULTILINE)
        self.assertGreater(len(messages), 8)
        for message in messages:
            with self.subTest(message=message):
                self.assertIn(message, texts)

    def test_each_link_leads_somewhere(self):
        documents = [*REPOSITORY.glob("*.md"), *(REPOSITORY / "docs").glob("*.md"), *DEPLOY.glob("**/*.md")]
        self.assertGreater(len(documents), 10)
        for file in documents:
            for target in re.findall(r"\]\(([^)\s]+)\)", file.read_text()):
                if target.startswith("https://"):
                    continue
                name, _, anchor = target.partition("#")
                linked = file.parent / name if name else file
                with self.subTest(file=file.name, target=target):
                    self.assertTrue(linked.exists())
                    self.assertTrue(not anchor or anchor in anchors(linked.read_text()))

    def test_each_file_that_is_named_is_there(self):
        for name in re.findall(r"\b(?:deploy|chart|senders|test)/[\w./-]+\w/?", GUIDE):
            base = REPOSITORY if name.startswith("deploy/") else DEPLOY
            with self.subTest(name=name):
                self.assertTrue((base / name).exists() or list(base.glob(name + "*")))
