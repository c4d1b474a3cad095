"""A source directory that changes as the kubelet changes a ConfigMap's: a new directory, then one rename of `..data`."""

import os
import shutil

CONFIG = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
extenders:
- urlPrefix: http://127.0.0.1:{port}
  filterVerb: filter
  nodeCacheCapable: true
  ignorable: true
  httpTimeout: 5s
"""


class Source:
    """One file, `config.yaml`, whose extender's port is another after every swap."""

    def __init__(self, directory, port=20000):
        self.directory, self.port, self.number = directory, port, 0
        directory.mkdir(parents=True)
        self.swap()
        (directory / "config.yaml").symlink_to("..data/config.yaml")

    def prepare(self):
        """All but the rename, so that only the rename is timed."""
        self.number += 1
        new = self.directory / f"..{self.number:08}"
        new.mkdir()
        (new / "config.yaml").write_text(CONFIG.format(port=self.port + self.number))
        link = self.directory / "..data_tmp"
        link.symlink_to(new.name)
        return link

    def swap(self, link=None):
        os.rename(link or self.prepare(), self.directory / "..data")

    def tidy(self):
        """The kubelet removes the old directory afterwards."""
        shutil.rmtree(self.directory / f"..{self.number - 1:08}", ignore_errors=True)
