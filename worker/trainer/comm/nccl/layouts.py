#!/usr/bin/env python3
"""Writes layouts.tsv: the declarations on which nccl_api.h relies, as in the nccl.h of each NCCL on PyPI since 2.18.

  layouts.py [VERSION...]     only those versions of nvidia-nccl-cu12; default: all

Each row is a version. The columns are sizes and offsets of ncclConfig_t and ncclUniqueId in bytes, and values of enums
and macros; "-" if a version does not have one. A C compiler reads the headers. A wheel has about 200 MB; only its
header is kept, in memory. nccl_layout_test.cc compares the values with nccl_api.h.
"""

import pathlib
import re
import subprocess
import sys
import tempfile
import zipfile

PACKAGE = "nvidia-nccl-cu12"
OLDEST = (2, 18)
TABLE = pathlib.Path(__file__).with_name("layouts.tsv")
FIELDS = "size magic version blocking cgaClusterSize minCTAs maxCTAs netName splitShare".split()
VALUES = """ncclSuccess ncclUnhandledCudaError ncclSystemError ncclInternalError ncclInvalidArgument ncclInvalidUsage ncclRemoteError
  ncclInProgress ncclInt8 ncclUint8 ncclInt32 ncclUint32 ncclInt64 ncclUint64 ncclFloat16 ncclFloat32 ncclFloat64 ncclBfloat16 ncclSum
  ncclProd ncclMax ncclMin NCCL_CONFIG_UNDEF_INT""".split()
OPTIONAL = "NCCL_SHRINK_DEFAULT NCCL_SHRINK_ABORT NCCL_REVOKE_DEFAULT".split()  # macros of later versions only
CUDA = "typedef struct CUstream_st* cudaStream_t; typedef struct CUevent_st* cudaEvent_t;\n"
PROGRAM = (
    '#define __CUDA_BF16_TYPES_EXIST__\n#include <stddef.h>\n#include <stdio.h>\n#include "nccl.h"\n#define SAY(name, value) printf("%s\\t%lld\\n", name, (long long)(value))\n'
    "int main(void) {\n  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;\n  SAY(\"magic\", config.magic);\n"
    '  SAY("sizeof ncclUniqueId", sizeof(ncclUniqueId));\n'
    + "".join(f'  SAY("offsetof {field}", offsetof(ncclConfig_t, {field}));\n' for field in FIELDS)
    + "".join(f'  SAY("{value}", {value});\n' for value in VALUES)
    + "".join(f'#ifdef {value}\n  SAY("{value}", {value});\n#endif\n' for value in OPTIONAL)
    + "  return 0;\n}\n"
)


def pip(*arguments):
    return subprocess.run([sys.executable, "-m", "pip", *arguments], check=True, capture_output=True, text=True).stdout


def all_versions():
    listed = re.search(r"Available versions: (.*)", pip("index", "versions", PACKAGE)).group(1).split(", ")
    numbers = lambda version: tuple(int(part) for part in version.split(".")[:3])
    return sorted((version for version in listed if numbers(version)[:2] >= OLDEST), key=numbers)


def header_of(version):
    with tempfile.TemporaryDirectory() as folder:
        pip("download", "--quiet", "--no-deps", "--no-cache-dir", "--only-binary=:all:", "--dest", folder, f"{PACKAGE}=={version}")
        with zipfile.ZipFile(next(pathlib.Path(folder).glob("*.whl"))) as wheel:
            return wheel.read("nvidia/nccl/include/nccl.h").decode()


def rows_of(header):
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "nccl.h").write_text(header)
        (folder / "cuda_runtime.h").write_text(CUDA)
        (folder / "cuda_fp16.h").write_text("")
        (folder / "cuda_bf16.h").write_text("")
        (folder / "layout.c").write_text(PROGRAM)
        subprocess.run(["cc", "-I", name, "-o", folder / "layout", folder / "layout.c"], check=True)
        return subprocess.run([folder / "layout"], check=True, capture_output=True, text=True).stdout.splitlines()


def main():
    layouts = {}
    for version in sys.argv[1:] or all_versions():
        print(version, file=sys.stderr, flush=True)
        layouts[version] = dict(row.split("\t") for row in rows_of(header_of(version)))
    names = list(dict.fromkeys(name for layout in layouts.values() for name in layout))
    lines = [["version", *names]] + [[version, *(layout.get(name, "-") for name in names)] for version, layout in layouts.items()]
    TABLE.write_text("".join("\t".join(line) + "\n" for line in lines))


main()
