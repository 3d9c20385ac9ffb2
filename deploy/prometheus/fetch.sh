#!/usr/bin/env bash
# fetch.sh FOLDER: Prometheus, Alertmanager and their tools into FOLDER/bin, for tests and `tidegate up --prometheus`.
# Started from there, they take absolute paths alone.
# They come from Debian's packages, unpacked and not installed, so that no root is needed. Nothing is done where
# all four are on PATH, named by the environment, or in FOLDER. Where they cannot be had it says so and ends with 0:
# what does not need them works all the same.
set -uo pipefail
folder=$1

have() {
  local named=$1
  shift
  [[ -n ${!named:-} ]] && return 0
  for name in "$@"; do command -v "$name" >/dev/null && return 0; done
  return 1
}

without() {
  echo "no Prometheus: $1. Tests that need it are skipped. To run them, install prometheus and alertmanager," \
    "or set TIDEGATE_PROMETHEUS, TIDEGATE_PROMTOOL, TIDEGATE_ALERTMANAGER and TIDEGATE_AMTOOL." >&2
  exit 0
}

[[ -e $folder/.ready ]] && exit 0
have TIDEGATE_PROMETHEUS prometheus && have TIDEGATE_PROMTOOL promtool &&
  have TIDEGATE_ALERTMANAGER alertmanager prometheus-alertmanager && have TIDEGATE_AMTOOL amtool && exit 0
for tool in apt-get dpkg-deb; do command -v $tool >/dev/null || without "there is no $tool here"; done

echo "fetching Prometheus and Alertmanager into $folder …"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkdir -p "$scratch"/{lists,cache,packages}
options=(-qq -o APT::Sandbox::User=root -o Acquire::Retries=1 -o Acquire::http::Timeout=20)
download() { (cd "$scratch/packages" && apt-get "${options[@]}" download prometheus prometheus-alertmanager) 2>"$scratch/said"; }
# Lists of our own where the system's are absent or old: writing those needs root.
own_lists() {
  options+=(-o "Dir::State::lists=$scratch/lists" -o "Dir::Cache=$scratch/cache")
  apt-get "${options[@]}" update 2>"$scratch/said"
}
download || { own_lists && download; } || without "apt-get said: $(tail -n 1 "$scratch/said")"
mkdir -p "$folder/bin"
for package in "$scratch"/packages/*.deb; do
  dpkg-deb --fsys-tarfile "$package" | tar -x -C "$folder" --wildcards './usr/bin/*' './usr/share/prometheus/*' ||
    without "$package does not unpack"
done
# Debian's builds read templates and pages from /usr/share: here from the folder that they are started in. The new
# path is as long as the old one, as a path within a program has to be.
for program in prometheus prometheus-alertmanager promtool amtool; do
  LC_ALL=C sed -i 's#/usr/share/prometheus/#usr/share/prometheus//#g' "$folder/usr/bin/$program"
  printf '#!/bin/sh\ncd "$(dirname "$0")/.." && exec usr/bin/%s "$@"\n' $program >"$folder/bin/$program"
  chmod +x "$folder/bin/$program"
done
touch "$folder/.ready"
