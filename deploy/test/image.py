"""An image as it was packed: its configuration."""

import json
import os
import tarfile


def image_config():
    """What the image says of its containers."""
    return whole_config(os.environ["IMAGE"])["config"]


def whole_config(path):
    """What a packed image says of itself."""
    with tarfile.open(path) as image:

        def read(name):
            return json.load(image.extractfile(name))

        def blob(descriptor):
            return read("blobs/" + descriptor["digest"].replace(":", "/"))

        (manifest,) = read("index.json")["manifests"]
        return blob(blob(manifest)["config"])
