"""python_header.py HEADER: the module declares the interface, the types and the operations that ddprun.h declares."""
import re
import sys

import ddprun

with open(sys.argv[1]) as file:
    header = file.read()
struct = re.search(r"struct ddp_interface \{(.*?)\n\};", header, re.S).group(1)
declared = ["version"] + re.findall(r"\(\*(\w+)\)", struct)
known = [name for name, _ in ddprun._Interface._fields_]
assert known[:len(declared)] == declared, "the struct has %r, the module %r" % (declared, known)

version = int(re.search(r"#define DDP_INTERFACE_VERSION (\d+)", header).group(1))
assert version <= ddprun._INTERFACE_VERSION, "the header has version %d" % version
if version == ddprun._INTERFACE_VERSION:
    assert known == declared, "the module has more: %r" % known[len(declared):]

for enum, prefix, numbers in [("ddp_type", "DDP_", ddprun._TYPES), ("ddp_operation", "DDP_OP_", ddprun._OPERATIONS)]:
    found = re.search(r"enum %s \{(.*?)\}" % enum, header, re.S)
    for name, number in re.findall(prefix + r"(\w+) = (\d+)", found.group(1) if found else ""):
        assert numbers.get(name.lower()) == int(number), "%s%s is %s" % (prefix, name, number)
assert len(declared) > 15
