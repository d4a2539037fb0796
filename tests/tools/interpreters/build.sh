#!/usr/bin/env bash
# Build two Pythons from Debian's sources, and run the agent's tests with them: one on musl, the C library of Alpine, and one in
# a folder of its own that finds its library beside itself, as conda's do.
#
#     tests/tools/interpreters/build.sh FOLDER
#
# Needs apt-get, gcc, make and musl-tools; nothing of it is installed into the system. About 8 minutes on two cores.
set -euo pipefail
root=$(cd "$(dirname "$0")/../../.." && pwd)
mkdir -p "$1/lists/partial" "$1/headers" "$1/sources"
folder=$(cd "$1" && pwd)
cd "$folder"

. /etc/os-release
echo "deb-src [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian $VERSION_CODENAME main" > sources.list
from=(-o Dir::Etc::SourceList="$folder/sources.list" -o Dir::Etc::SourceParts=/dev/null -o Dir::State::Lists="$folder/lists")
apt-get "${from[@]}" -qq update
apt-get "${from[@]}" -qq source --download-only python3.11 zlib libffi
for packed in *.orig.tar.*; do tar -C sources -xf "$packed"; done
python=$(echo "$folder"/sources/Python-3.11*)

# musl-gcc says that it is Debian's gcc, for glibc, and has no headers of the kernel
triplet=$(gcc -print-multiarch)
ln -sfn /usr/include/linux headers/linux
ln -sfn /usr/include/asm-generic headers/asm-generic
ln -sfn "/usr/include/$triplet/asm" headers/asm
cat > musl-gcc << 'END'
#!/bin/sh
case " $* " in *print-multiarch*) exit 0 ;; esac
exec musl-gcc "$@"
END
chmod +x musl-gcc
sed -i 's/^\( *\)self.add_multiarch_paths()/\1pass/' "$python/setup.py"
musl() { # build in the present folder, for musl
    CC="$folder/musl-gcc" CFLAGS="-w -fPIC -idirafter $folder/headers" "$@"
}
(cd sources/zlib-* && musl ./configure --static --prefix="$folder/musl" && make -s -j2 install)
cp -r sources/libffi-* libffi
(cd libffi && musl ./configure --disable-shared --disable-docs --prefix="$folder/musl" && make -s -j2 install)
(cd sources/libffi-* && ./configure --disable-docs --prefix="$folder/conda" && make -s -j2 install)
mkdir -p build-musl build-conda
cd build-musl
PKG_CONFIG_PATH="$folder/musl/lib/pkgconfig" musl "$python/configure" --build=x86_64-pc-linux-musl --prefix="$folder/musl" \
    --without-ensurepip --disable-test-modules CPPFLAGS="-I$folder/musl/include -idirafter $folder/headers" \
    LDFLAGS="-L$folder/musl/lib"
make -s -j2 && make -s install

cd ../build-conda
PKG_CONFIG_PATH="$folder/conda/lib/pkgconfig" "$python/configure" --enable-shared --prefix="$folder/conda" --without-ensurepip \
    --disable-test-modules CPPFLAGS="-I$folder/conda/include" LDFLAGS="-Wl,-rpath,\\\$\$ORIGIN/../lib -L$folder/conda/lib"
make -s -j2 && make -s install
mkdir -p "$folder/conda/conda-meta"

cd "$root"
export KERNELSCOPE_PYTHONS="$folder/musl/bin/python3:$folder/conda/bin/python3"
.venv/bin/python -m pytest -q tests/tracer/test_agent.py
