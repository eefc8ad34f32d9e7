#!/usr/bin/env python3
"""Checks the dependencies against deny.toml: licences, sources, crates that are here twice.

    .ci/dependencies.py

The fuzz targets' too, whose lock is their own; what is here twice is looked for in the workspace alone. It knows the
part of cargo-deny's format that deny.toml uses, so that CI needs no other program than cargo and Python; where
cargo-deny is installed, .ci/run has it look as well.
"""

import collections
import json
import re
import subprocess
import sys
import tomllib

MANIFESTS = ("Cargo.toml", "server/fuzz/Cargo.toml")


def is_allowed(expression, allowed):
    """Whether an SPDX expression can be met by the licences that are allowed.

    >>> is_allowed("MIT OR GPL-3.0", {"MIT"}), is_allowed("MIT AND GPL-3.0", {"MIT"})
    (True, False)
    >>> is_allowed("(MIT OR GPL-3.0) AND ISC", {"MIT", "ISC"}), is_allowed("GPL-3.0/MIT", {"MIT"})
    (True, True)
    >>> is_allowed("MPL-2.0+", {"MPL-2.0"}), is_allowed("MIT WITH an-exception", {"MIT"})
    (True, False)
    >>> is_allowed("", {"MIT"}), is_allowed(None, {"MIT"}), is_allowed("MIT MIT", {"MIT"})
    (False, False, False)
    """
    tokens = re.findall(r"[()]|[^\s()]+", (expression or "").replace("/", " OR "))

    def take(expected):
        if tokens and tokens[0] == expected:
            return tokens.pop(0)
        return None

    def any_of():
        holds = all_of()
        while take("OR"):
            holds = all_of() or holds
        return holds

    def all_of():
        holds = one()
        while take("AND"):
            holds = one() and holds
        return holds

    def one():
        if take("("):
            holds = any_of()
            return bool(take(")")) and holds
        name = tokens.pop(0) if tokens else ""
        if take("WITH"):
            return f"{name} WITH {tokens.pop(0) if tokens else ''}" in allowed
        return name.removesuffix("+") in allowed

    return any_of() and not tokens


def is_version(version, pattern):
    """Whether a version begins with all parts of the pattern.

    >>> is_version("0.13.2", "0.13"), is_version("0.130.0", "0.13"), is_version("2.1.0", "2")
    (True, False, True)
    """
    return f"{version}.".startswith(f"{pattern}.")


def licence_faults(packages, rules):
    """
    >>> licence_faults([("a", "1.0.0", "GPL-3.0", "s"), ("b", "1.0.0", "MIT", "s")], {"allow": ["MIT"]})
    ['a 1.0.0: its licence is GPL-3.0, which [licenses] allow does not name']
    """
    allowed = set(rules["allow"])
    return [
        f"{name} {version}: its licence is {licence}, which [licenses] allow does not name"
        for name, version, licence, source in packages
        if not is_allowed(licence, allowed)
    ]


def source_faults(packages, rules):
    """
    >>> source_faults([("a", "1.0.0", "MIT", "git+https://x/a")], {"allow-registry": ["https://r"]})
    ['a 1.0.0: it comes from git+https://x/a, which [sources] does not allow']
    >>> source_faults([("a", "1.0.0", "MIT", "registry+https://r")], {"allow-registry": ["https://r"]})
    []
    """
    allowed = {f"registry+{url}" for url in rules["allow-registry"]}
    return [
        f"{name} {version}: it comes from {source}, which [sources] does not allow"
        for name, version, licence, source in packages
        if source not in allowed
    ]


def duplicate_faults(packages, rules):
    """
    >>> two = [("a", "1.2.0", "MIT", "s"), ("a", "2.0.0", "MIT", "s")]
    >>> duplicate_faults(two, {"skip": []})
    ['a is here as 1.2.0 and 2.0.0: [bans] skip does not say why']
    >>> duplicate_faults(two, {"skip": [{"crate": "a@1", "reason": "b"}]})
    []
    >>> duplicate_faults(two[1:], {"skip": [{"crate": "a@1", "reason": "b"}]})
    ['a@1 is not here twice any more: [bans] skip has it']
    """
    versions = collections.defaultdict(set)
    for name, version, licence, source in packages:
        versions[name].add(version)
    faults, unused = [], {skip["crate"] for skip in rules["skip"]}
    for name, found in sorted(versions.items()):
        if len(found) == 1:
            continue
        skipped = [crate for crate in (skip["crate"] for skip in rules["skip"]) if crate.split("@")[0] == name]
        unused -= set(skipped)
        patterns = [crate.split("@")[1] for crate in skipped]
        left = [version for version in found if not any(is_version(version, pattern) for pattern in patterns)]
        if len(left) > 1:
            faults.append(f"{name} is here as {' and '.join(sorted(left))}: [bans] skip does not say why")
    return faults + [f"{crate} is not here twice any more: [bans] skip has it" for crate in sorted(unused)]


def packages_of(manifest, targets):
    """Name, version, licence and source of all packages but our own that a build for the targets uses."""
    command = ["cargo", "metadata", "--format-version", "1", "--locked", "--manifest-path", manifest]
    command += [part for target in targets for part in ("--filter-platform", target)]
    metadata = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)
    used = {node["id"] for node in metadata["resolve"]["nodes"]}
    return [
        (package["name"], package["version"], package["license"], package["source"])
        for package in metadata["packages"]
        if package["id"] in used and package["source"] is not None
    ]


def main():
    with open("deny.toml", "rb") as file:
        rules = tomllib.load(file)
    workspace, fuzz = (packages_of(manifest, rules["graph"]["targets"]) for manifest in MANIFESTS)
    packages = sorted(set(workspace + fuzz))
    faults = licence_faults(packages, rules["licenses"]) + source_faults(packages, rules["sources"])
    faults += duplicate_faults(workspace, rules["bans"])
    for fault in faults:
        print(fault, file=sys.stderr)
    if faults:
        return 1
    print(f"{len(packages)} dependencies: licences, sources and duplicates are as deny.toml has them")
    return 0


if __name__ == "__main__":
    sys.exit(main())
