#!/usr/bin/env bash
# Debian's installer for the test of `make soak` that runs it: fetched by apt and unpacked below the folder, once for each version.
# Usage: infra/setup/installer.sh FOLDER. Needs apt and dpkg; nothing is installed.
set -euo pipefail
folder=$(realpath -m "$1")
package=debian-installer-12-netboot-amd64
version=$(apt-cache show --no-all-versions "$package" | sed -n 's/^Version: //p')
[ -n "$version" ] || { echo "apt has no $package: run apt-get update, and look at its sources" >&2; exit 1; }
[ "$(cat "$folder/version" 2>/dev/null)" != "$version" ] || exit 0
[ -e "$folder/version" ] || [ ! -e "$folder" ] || { echo "$folder exists and is none of this script's: name another" >&2; exit 1; }
made=$folder.new
rm -rf "$made"
mkdir -p "$made"
cd "$made"
echo "Fetching $package $version (133 MB)"
apt-get download "$package" >/dev/null
dpkg-deb --extract "$package"_*.deb .
rm "$package"_*.deb
echo "$version" >version
rm -rf "$folder"
mv "$made" "$folder"
