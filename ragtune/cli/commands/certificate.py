"""Certify what a budget saved and lost on your own requests.

    export RAGTUNE_CERTIFICATE_KEY=...                      # of openssl rand -hex 32
    ragtune certificate shadow.jsonl --metrics metrics.txt --out november
    ragtune certificate --verify november/certificate.json

SHADOW-FILE is the file of ragtune serve --shadow-file. Writes certificate.json, with a signature, and certificate.html.
The same input and key give the same bytes. --verify checks the signature. With a shadow file, and --metrics if the
certificate has counts, it also computes the figures again.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from ragtune.core.errors import ConfigError, InputError
from ragtune.services.certificate import certificate, key_in, page, signed, verified


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the command."""
    parser.add_argument("file", metavar="SHADOW-FILE", type=Path, nargs="?", help="the file of serve --shadow-file")
    parser.add_argument("--out", metavar="DIR", type=Path, default=Path("certificate"), help="output folder")
    parser.add_argument("--metrics", metavar="FILE", type=Path, help="saved page of the server's /metrics, for counts")
    parser.add_argument("--verify", metavar="FILE", type=Path, help="check the signature of this certificate")
    parser.add_argument(
        "--key-env", metavar="NAME", default="RAGTUNE_CERTIFICATE_KEY", help="environment variable with the signing key"
    )


def run(arguments: argparse.Namespace) -> int:
    """Write a certificate, or verify one."""
    key = key_in(arguments.key_env)
    if arguments.verify is not None:
        body = verified(arguments.verify, key)
        if arguments.file is not None and certificate(arguments.file, arguments.metrics) != body:
            raise InputError(f"{arguments.verify}: {arguments.file} and this version of RAGtune give other figures")
        sys.stdout.write(f"{arguments.verify}: the signature is valid\n")
        return 0
    if arguments.file is None:
        raise ConfigError("a shadow file is missing: ragtune certificate SHADOW-FILE, or --verify FILE")
    body = certificate(arguments.file, arguments.metrics)
    try:
        arguments.out.mkdir(parents=True, exist_ok=True)
        (arguments.out / "certificate.json").write_text(signed(body, key), encoding="utf-8")
        (arguments.out / "certificate.html").write_text(page(body, key), encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"--out {arguments.out}: cannot be written ({error})") from None
    saved, loss = body["saved_a_request"]["docs"]["mean"], body["loss"]
    sys.stdout.write(
        f"{body['requests']['compared']:,} requests compared: {saved:,.1f} of {body['documents_a_request']:,.1f} "
        f"documents a request not read, mean loss of nDCG@10 {loss['mean']:.4f}, at most {loss['at_most']:.4f}\n"
        f"{arguments.out / 'certificate.html'}\n"
    )
    return 0
