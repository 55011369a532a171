/*
 * words.h - the words in which the tables of calls (*.def) say which memory a call names. Only for the .c files that
 * make hooks from the tables: each word stands in the body of a hook, with the call's parameters and `call` at hand.
 *
 * Sources of the extents: the cuBLAS documentation's descriptions of parameters. A matrix of m rows and n columns that
 * begin ld elements apart ends with element (n - 1) * ld + m; a vector of n elements with element (n - 1) * |inc| + 1.
 */
#ifndef DDPRUN_INTERPOSE_SHIM_LIBRARIES_WORDS_H
#define DDPRUN_INTERPOSE_SHIM_LIBRARIES_WORDS_H

#include "interpose/shim/libraries/library.h"

/* ---- operands: place in the list of arguments, the parameter, how much of its memory ---- */
#define in(place, parameter, extent)  library_operand(&call, place, #parameter, parameter, ACCESS_READ, extent);
#define out(place, parameter, extent) library_operand(&call, place, #parameter, parameter, ACCESS_WRITE, extent);
/* Arrays of pointers in device memory, to elements of so many bytes. */
#define in_each(place, parameter, element, count) \
    ((void)(element), library_operand_each(&call, place, #parameter, (const void *)parameter, ACCESS_READ, count));
#define out_each(place, parameter, element, count) \
    ((void)(element), library_operand_each(&call, place, #parameter, (const void *)parameter, ACCESS_WRITE, count));

/* ---- extents ---- */
#define scalar(bytes)                         extent_solid(bytes)
#define vector(n, increment, element)         extent_vector(n, increment, element)
#define matrix(rows, columns, ld, element)    extent_matrix(rows, columns, ld, element)
#define square(n, ld, element)                extent_matrix(n, n, ld, element)
#define batch(extent, stride, count, element) extent_batch(extent, stride, count, element)
/* Half of a square; between its bytes lies the other half, which no other range can begin or end in. */
#define triangle(uplo, n, ld, element) ((void)(uplo), extent_matrix(n, n, ld, element))
/* A triangle without the other half. */
#define packed(n, element) extent_vector((int64_t)(n) * ((int64_t)(n) + 1) / 2, 1, element)
/* op(X) has so many rows and columns. */
#define operated(op, rows, columns, ld, element) \
    (is_plain(op) ? extent_matrix(rows, columns, ld, element) : extent_matrix(columns, rows, ld, element))

/* ---- numbers ---- */
#define either(op, plain, transposed) (is_plain(op) ? (plain) : (transposed))
#define on_side(side, left, right)    (is_left(side) ? (left) : (right))
#define of(type)                      note_floats(&call, type_of_floats(type), cuda_type_bytes(type))
/* Of ELEMENT, which of() does not know. */
#define of_element note_floats(&call, FOR_REAL(sizeof(ELEMENT) == 4 ? DDP_FLOAT32 : DDP_FLOAT64 +) 0, sizeof(ELEMENT))

/* Says of the operand that is being added, too, what its elements are. */
static inline size_t
note_floats(struct library_call *call, uint32_t type, size_t bytes)
{
    call->type = type;
    return bytes;
}

/* cuBLAS's enumerators, and the letters of its older interface. */
static inline bool
is_plain(int op)
{
    return op == CUBLAS_OP_N || op == 'n' || op == 'N';
}

static inline bool
is_left(int side)
{
    return side == CUBLAS_SIDE_LEFT || side == 'l' || side == 'L';
}

#endif
