"""images.py FILE... - lists the images of fatbins, and of programs with device code: "elf 70 zstd", "ptx 70 plain"; of cubins: "cubin 70 osabi 0x33 abi 7".

The format of a fatbin is not documented. What is read here: a header of 16 bytes (magic, version, size of the header, bytes that follow),
and for each image a header with its kind, sizes, architecture and flags. cuobjdump --list-elf lists the same.
"""
import struct
import sys

MAGIC, PTX, ELF, CUDA_MACHINE = 0xBA55ED50, 1, 2, 190
LZ4_FLAGS, ZSTD_FLAG = 0x3000, 0x8000


def list_fatbin(data, begin=0):
    """Returns where it ends."""
    header, total = struct.unpack_from("<HQ", data, begin + 6)
    at, end = begin + header, begin + header + total
    while at < end:
        kind, _, header, size = struct.unpack_from("<HHIQ", data, at)
        architecture, = struct.unpack_from("<I", data, at + 28)
        flags, = struct.unpack_from("<Q", data, at + 40)
        packing = "zstd" if flags & ZSTD_FLAG else "lz4" if flags & LZ4_FLAGS else "plain"
        print({PTX: "ptx", ELF: "elf"}.get(kind, f"kind-{kind}"), architecture, packing)
        at += header + size
    if at != end:
        sys.exit("the images do not end where the fatbin does")
    return end


def list_program(data):
    """Of an ELF file of the host: the fatbins of its section .nv_fatbin, one after another, with zeros between them."""
    sections, = struct.unpack_from("<Q", data, 40)
    size, count, names = struct.unpack_from("<HHH", data, 58)
    names_at, = struct.unpack_from("<Q", data, sections + size * names + 24)
    for i in range(count):
        name, _, _, _, at, length = struct.unpack_from("<IIQQQQ", data, sections + size * i)
        if not data.startswith(b".nv_fatbin\0", names_at + name):
            continue
        end = at + length
        while at < end:
            if struct.unpack_from("<I", data, at)[0] == MAGIC:
                at = list_fatbin(data, at)
            else:
                at += 4


def list_cubin(data):
    machine, = struct.unpack_from("<H", data, 18)
    flags, = struct.unpack_from("<I", data, 48)
    if machine != CUDA_MACHINE:
        return list_program(data)
    osabi, abi = data[7], data[8]
    architecture = flags >> 8 & 0xFF if osabi == 0x41 else flags & 0xFF
    print("cubin", architecture, "osabi", hex(osabi), "abi", abi)


for path in sys.argv[1:]:
    with open(path, "rb") as file:
        content = file.read()
    if content[:4] == b"\x7fELF":
        list_cubin(content)
    elif struct.unpack_from("<I", content)[0] == MAGIC:
        list_fatbin(content)
    else:
        sys.exit(f"{path} is neither a fatbin nor a cubin")
