#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs what tenon is built from, on Debian 12 or Ubuntu 24.04 and newer. Says nothing and asks for nothing when
# everything is there. The CUDA Toolkit (13 or newer) is NVIDIA's to install; without it the CPU library is built.
#
#   tools/setup.sh [--dev] [--data]    --dev adds formatter, linter, ccache and graphviz; --data Fashion-MNIST
set -euo pipefail

packages=(g++ cmake ninja-build git python3 libhwy-dev zlib1g-dev catch2 nlohmann-json3-dev
          libopenblas-dev)
for option in "$@"; do
  case $option in
    --dev) packages+=(clang-format clang-tidy ccache graphviz) ;;
    --data) packages+=(dataset-fashion-mnist) ;;
    *) echo "setup.sh: unknown option $option" >&2; exit 2 ;;
  esac
done

if ! command -v apt-get >/dev/null || ! command -v dpkg-query >/dev/null; then
  echo "setup.sh: no apt here; needed are a C++20 compiler, CMake 3.25, Ninja, Highway, zlib, Catch2," \
       "nlohmann-json, and if wanted a CBLAS" >&2
  exit 0
fi
missing=()
for package in "${packages[@]}"; do
  status=$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null || true)
  [ "$status" = installed ] && continue
  # Another provider of the same program will do.
  case $package in
    g++) command -v g++ >/dev/null && continue ;;
    cmake) command -v cmake >/dev/null && continue ;;
    ninja-build) command -v ninja >/dev/null && continue ;;
    git) command -v git >/dev/null && continue ;;
    python3) command -v python3 >/dev/null && continue ;;
    clang-format | clang-tidy | ccache) command -v "$package" >/dev/null && continue ;;
    graphviz) command -v dot >/dev/null && continue ;;
    dataset-fashion-mnist) [ -d /usr/share/datasets/fashion-mnist ] && continue ;;
  esac
  missing+=("$package")
done
[ ${#missing[@]} -eq 0 ] && exit 0

as_root=()
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null || { echo "setup.sh: run as root, or install: ${missing[*]}" >&2; exit 1; }
  as_root=(sudo)
fi
echo "installing ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
install() { "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >/dev/null; }
install "${missing[@]}" 2>/dev/null || { "${as_root[@]}" apt-get update -qq && install "${missing[@]}"; }
