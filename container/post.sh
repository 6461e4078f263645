#!/bin/sh
# The end of both images' builds, run inside: bytecode, and the list of what is in it. Called with the words that go to
# container.packages. What differs from build to build is left out when the image is packed (container/same_bytes.py), not
# removed here: a build shows the machine's own /tmp and home.
set -eu
export PYTHONPATH=/opt/clm-or-mlm/source PYTHONSAFEPATH=1 PYTHONHASHSEED=0
PYTHON=/opt/clm-or-mlm/env/bin/python
# In order, by one process: what else it has compiled decides about shared constants in a file's bytecode. By the hash of
# the source and never looked at again: no times. Some packages bring files for other Pythons, which are passed over.
$PYTHON -m compileall -qq -f --invalidation-mode unchecked-hash /opt/clm-or-mlm/env/lib || true
$PYTHON -m compileall -q -f --invalidation-mode unchecked-hash /opt/clm-or-mlm/source
$PYTHON -m compileall -qq -f --invalidation-mode unchecked-hash /usr/lib/python3.11 /usr/lib/python3 || true
# The archives are hashed below; purging apt, which an image has no use for, would remove them.
mv /var/cache/apt/archives /var/cache/archives
dpkg --purge apt libapt-pkg6.0
$PYTHON -m container.packages "$@"
# A container needs no setuid program; only root may change what is installed.
find /usr -type f -perm /6000 -exec chmod a-s {} +
chmod -R go-w /opt/clm-or-mlm
rm -rf /var/cache/archives /etc/apt /usr/share/doc/*/changelog* /usr/share/man/* /usr/share/locale/* /usr/share/info/*
# The day of the last change of a password that nobody has.
sed -i -E 's/^([^:]*:[^:]*):[0-9]*:/\1:0:/' /etc/shadow
