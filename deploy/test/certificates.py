"""Certificates of elliptic curves that last two days, for tests."""

import subprocess


def make_certificate(directory, name, kind, *more):
    """Makes NAME.crt and NAME.key in a directory: of a kind that OpenSSL's configuration names, with its further options.

    The certificate's path.
    """
    certificate = f"{directory}/{name}.crt"
    key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", f"{directory}/{name}.key"]
    made = ["-out", certificate, "-days", "2", "-subj", f"/CN={name}", "-extensions", kind]
    subprocess.run(["openssl", "req", "-x509", *key, *made, *more], check=True, capture_output=True)
    return certificate
