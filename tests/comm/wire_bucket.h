/*
 * wire_bucket.h - random buckets in an arena of device memory, for the tests of comm/wire.h: on the stand-in's driver,
 * with the kernels that jobs use. Members have any length, at any distance, in any order, down to one element and up to
 * several chunks.
 */
#ifndef DDPRUN_TESTS_COMM_WIRE_BUCKET_H
#define DDPRUN_TESTS_COMM_WIRE_BUCKET_H

#include "device.h"

#include "comm/wire.h"

enum { ROUNDS = 200, MEMBERS_AT_MOST = 24, ARENA_BYTES = 1 << 18, WORLD_SIZE = 3, FLOAT_TYPES = 4 };

/* Of the group's tests: keep_setting() before each puts back what one has changed. */
extern struct wire_setting setting;
extern CUdeviceptr arena; /* [ARENA_BYTES] on the device */
extern struct comm_error error;
/* On the host: images of the arena, and of packed buckets. */
extern unsigned char before[ARENA_BYTES], after[ARENA_BYTES], packed[ARENA_BYTES], expected[ARENA_BYTES];

struct float_type {
    ncclDataType_t type;
    uint64_t exponent;     /* its bits */
    double unit, smallest; /* roundoff; subnormal */
};
extern const struct float_type float_types[FLOAT_TYPES];

/* .start and .setup of TEST_GROUP: opens the device with its arena; puts `setting` back. */
void open_wire(void);
void keep_setting(void);

/* Draws members whose elements have `element` bytes, aligned to that and to no more; returns how many,
 * MEMBERS_AT_MOST at most. */
size_t members_make(struct bucket_member *members, size_t element);
/* From the image of the arena to the members' packed form, whose bytes are returned; and back. */
size_t members_gather(unsigned char *to, const unsigned char *image, const struct bucket_member *members, size_t count);
void members_scatter(unsigned char *image, const unsigned char *from, const struct bucket_member *members,
                     size_t count);

/* As wire.h has them, with `setting`; each must succeed. */
void place_bucket(struct bucket_wire *wire, const struct bucket_member *members, size_t count, ncclDataType_t type);
void pack_bucket(struct bucket_wire *wire, double weight);
void unpack_bucket(struct bucket_wire *wire);

/* The number that 16 bits of bfloat16, or of float16, hold; of infinity's bits: the number that would come next. */
double number_of_bits(unsigned bits, bool bfloat);
/* The bits nearest to a number, of two the even ones, by bisection over the positive ones. */
unsigned number_nearest_bits(float value, bool bfloat);
bool number_is_nan(unsigned bits, bool bfloat);
/* An element of any type of float_types, as a number; and a number, rounded, as an element. */
double number_load(const unsigned char *from, ncclDataType_t type);
void number_store(unsigned char *to, double value, ncclDataType_t type);

#endif
