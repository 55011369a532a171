/*
 * wire.h - a bucket on its way: its gradients in place where they lie next to each other in memory, else packed into a
 * buffer by one kernel, and unpacked by another. Managed memory, which moves, is always packed: NCCL gets none.
 *
 * What is sent is the members one after another, in the order in which they are given, without gaps: the same bytes
 * whether they were packed or not, so that ranks whose memory looks different understand each other. A member may be a
 * part of a gradient. With compression every bucket of float32 is packed, in 16 bits an element. Without it, means of
 * float16 are packed as float32: neither does their sum overflow, nor does a division before it take bits of them.
 *
 * Called by the engine's issuer (interpose/engine/send/bucket_launch.c) and by collectives.c; nothing here waits for
 * the device.
 */
#ifndef DDPRUN_COMM_WIRE_H
#define DDPRUN_COMM_WIRE_H

#include "base/protocol.h"
#include "comm/kernels.h"

#include <nccl.h>
#include <stddef.h>
#include <stdint.h>

/* Memory of one gradient, or of a part of it, on this rank. */
struct bucket_member {
    CUdeviceptr address;
    size_t bytes;
    bool is_packed; /* always: NCCL is not to work in this memory */
};

/* How all buckets of a job are sent. */
struct wire_setting {
    const struct driver *driver;
    struct kernels kernels; /* not loaded: buckets are packed by copies */
    bool divides;           /* all ranks have kernels: means are sums that they divide; else NCCL's own */
    int world_size;
    enum ddprun_reduction reduction;
    enum ddprun_compression compression; /* of float32 only; other than none needs kernels */
};

enum wire_path {
    WIRE_IN_PLACE, /* NCCL reduces the gradients where they are */
    WIRE_KERNELS,  /* packed by one kernel, unpacked by another */
    WIRE_COPIES,   /* packed by a copy for each member: there are no kernels */
};

/*
 * Whether the bucket is looked at before it is sent, for elements that are infinite or NaN: all of what a kernel packs;
 * of a bucket in place one part in NONFINITE_TURNS, another at each turn; nothing that is packed by copies.
 */
struct wire_look {
    CUdeviceptr claim;  /* as in comm/kernels/nonfinite.h; 0: it is not looked at */
    CUdeviceptr found;  /* struct nonfinite_found */
    uint64_t step;      /* of that struct */
    uint64_t turn;      /* grows by 1 from time to time that the bucket is sent */
    CUdeviceptr launch; /* in a capture: struct nonfinite_launch, added to both at each launch; else 0 */
    bool whole;         /* of a bucket in place all is looked at, at each turn */
};

/* Doubles of the device, to which the squares of this rank's elements and of the averages are added; 0: they are not
 * wanted. Where means are divided (wire_mean()), at weight 1, on the way of the passes over the bucket. Of one in place
 * they are those of a part, by the look's turn, as many times as there are parts: over the turns their mean is that of
 * all elements. */
struct wire_squares {
    CUdeviceptr own, averages;
};

struct bucket_wire {
    struct bucket_member *members; /* in the order in which they are sent; owned */
    size_t member_count;
    enum wire_path path;
    enum kernel_conversion conversion;

    /* what NCCL reduces */
    CUdeviceptr address; /* the first member, or the buffer */
    ncclDataType_t type;
    size_t element_count;

    struct wire_look look; /* at the next wire_pack(); the caller's, like the next */
    struct wire_squares squares;
    ncclDataType_t member_type;

    /* owned device memory, kept while the wire exists */
    CUdeviceptr buffer;
    size_t buffer_bytes;
    bool is_lent;        /* the buffer is the caller's */
    bool stays_packed;   /* also where its members are neighbours */
    CUdeviceptr chunks;  /* struct chunk[chunk_count], for the kernels, */
    CUdeviceptr digests; /* and uint64_t[chunk_count] after them: struct chunk_digests */
    size_t chunk_capacity;
    unsigned chunk_count;
};

/*
 * Makes `wire` (all zero, or placed before) fit these members of a bucket whose elements are of `type`. Allocates
 * device memory when it first has to be packed, and enqueues the kernels' table on `stream`, on which the bucket
 * is reduced. wire_free() releases all, after a failure too; while the bucket may be on its way it must not be called.
 */
bool wire_place(struct bucket_wire *wire, const struct wire_setting *setting, const struct bucket_member *members,
                size_t member_count, ncclDataType_t type, CUstream stream, struct comm_error *error) MUST_USE;
void wire_free(struct bucket_wire *wire, const struct driver *driver); /* an all-zero wire is ignored */

/* Whether elements of `type` are sent as float32: those of float16 whose mean is wanted, if none are compressed. */
bool wire_widens(const struct wire_setting *setting, ncclDataType_t type);

/* How many bytes are sent for so many of `type`. */
size_t wire_sent_bytes(const struct wire_setting *setting, ncclDataType_t type, size_t bytes);

/* Whether these members will be packed, and how many bytes the packed bucket has. */
bool wire_is_packed(const struct wire_setting *setting, const struct bucket_member *members, size_t member_count,
                    ncclDataType_t type, size_t *bytes_p);

/* An all-zero wire is packed into this memory of the caller's, as long as it lives: where it has to be packed, or
 * `always`. */
void wire_lend(struct bucket_wire *wire, CUdeviceptr buffer, size_t bytes, bool always);

/* Whether the wire was placed for just these members. */
bool wire_has(const struct bucket_wire *wire, const struct bucket_member *members, size_t member_count);

/*
 * How a mean of elements of `type` comes about: NCCL's operation, and what elements are divided by before and after it;
 * 1: they stay as they are. NCCL's own average multiplies with a reciprocal that is rounded to the type, 0.2 % off for
 * bfloat16 and three ranks, and its NVLS algorithm takes sums only (NCCL 2.21 to 2.30: ncclDevPreMulSum in
 * src/enqueue.cc, ncclNvlsSupported() in src/include/device.h). A sum of float16 may
 * be too large where the mean is not: each rank divides by a power of two before, and by the rest after the sum; a
 * quotient below 2^-14 loses bits. So buckets of float16 are sent as float32 (wire_widens()), unless they are
 * compressed. The type alone decides, so that ranks whose buckets lie in other ways understand each other.
 */
struct wire_mean {
    ncclRedOp_t operation;
    double before, after;
};
struct wire_mean wire_mean(const struct wire_setting *setting, ncclDataType_t type);

/*
 * Before and after the reduction, on the bucket's stream. `weight`: what this rank's elements are multiplied with; 1
 * leaves every bit as it is, and with 0 zeros are sent, whatever the members hold. A bucket in place is scaled in
 * place, a packed one on the way. A weight other than 0 and 1 needs kernels.
 */
bool wire_pack(const struct bucket_wire *wire, const struct wire_setting *setting, double weight, CUstream stream,
               struct comm_error *error) MUST_USE;
bool wire_unpack(const struct bucket_wire *wire, const struct wire_setting *setting, CUstream stream,
                 struct comm_error *error) MUST_USE;

/* wire_unpack() of a bucket that kernels pack, which writes nothing where the guard forbids it when `stream` comes
 * there. */
struct chunk_guard;
bool wire_unpack_guarded(const struct bucket_wire *wire, const struct wire_setting *setting,
                         const struct chunk_guard *guard, CUstream stream, struct comm_error *error) MUST_USE;

/*
 * A bucket that is packed on the guess that nothing writes its members any more. wire_pack_digested() is wire_pack() of
 * a bucket that kernels pack, without a look and without squares, and keeps digests of what it has packed.
 * wire_compare() finds out whether packing with the same weight would give the same bytes when `stream` comes there: if
 * not, the uint32_t of the device at `stale` becomes 1. It looks and adds squares of this rank as wire_pack() does.
 * With weight 0 it does nothing.
 */
bool wire_pack_digested(const struct bucket_wire *wire, const struct wire_setting *setting, double weight,
                        CUstream stream, struct comm_error *error) MUST_USE;
bool wire_compare(const struct bucket_wire *wire, const struct wire_setting *setting, double weight, CUdeviceptr stale,
                  CUstream stream, struct comm_error *error) MUST_USE;

/* Which members hold a part of a chunk whose digest, as wire_compare() has left it, says that it is stale: digests[
 * chunk_count] into stale[member_count]. */
void wire_find_stale(const struct bucket_wire *wire, const uint64_t *digests, bool *stale);

/* What is sent becomes zero, whatever the members hold, also where one has no memory any more. */
bool wire_clear(const struct bucket_wire *wire, const struct wire_setting *setting, CUstream stream,
                struct comm_error *error) MUST_USE;

/* Whether a look at the bucket (struct wire_look) leaves some of it to later ones. */
bool wire_looks_in_part(const struct bucket_wire *wire);

/*
 * What NCCL is asked for. Compressed buckets are divided by the number of ranks before their conversion, so that no sum
 * is too large for the narrow type when its terms are not, and are summed; --reduce sum multiplies at the end.
 */
ncclRedOp_t wire_operation(const struct bucket_wire *wire, const struct wire_setting *setting);

/* Enqueues `count` elements at `address`, each times a number, over another, in place. Both 1: none. Needs kernels. */
bool wire_scale(const struct wire_setting *setting, CUdeviceptr address, size_t count, ncclDataType_t type,
                double times, double over, CUstream stream, struct comm_error *error) MUST_USE;

/* Launches one of ddprun's kernels that go through `count` elements by chunks; `what` is for messages. */
bool wire_run(const struct wire_setting *setting, CUfunction function, size_t count, ncclDataType_t type,
              void **arguments, CUstream stream, const char *what, struct comm_error *error) MUST_USE;

/* KERNEL_TYPES: not a type of gradients. */
enum kernel_type wire_kernel_type(ncclDataType_t type);

/* Bytes of an element; 0: not a type of gradients. */
size_t wire_element_bytes(ncclDataType_t type);

/* "in place", "kernels", "copies"; "float32", ...: for the trace and for messages. Static storage. */
const char *wire_path_name(enum wire_path path);
const char *wire_type_name(ncclDataType_t type);

#endif
