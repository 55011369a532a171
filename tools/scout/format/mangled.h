/*
 * mangled.h - what the pointers that a kernel gets lead to, as far as its name says it. Pure.
 *
 * The names of C++ functions hold the types of their parameters (Itanium C++ ABI, 5.1: _Z3sgdPfPKf). What is not
 * understood to the last letter says nothing: neither a name of C, nor lambdas, expressions, or packs.
 */
#ifndef DDPRUN_TOOLS_SCOUT_FORMAT_MANGLED_H
#define DDPRUN_TOOLS_SCOUT_FORMAT_MANGLED_H

#include <stdbool.h>
#include <stdint.h>

struct mangled_parameter {
    bool is_pointer;
    uint32_t pointee; /* enum scout_type of what it points to; SCOUT_UNKNOWN: no kind of float */
    bool is_words;    /* it points to whole numbers of 16 bits or more: always the same ones, in the same kernel */
    uint32_t table;   /* of what the pointers point to that it points to (float **) */
};

/* Fills in parameters[], as many as the kernel has. Returns their number, or -1: the name does not say them, or they
 * are more than `most`. */
int mangled_parameters(const char *name, struct mangled_parameter *parameters, int most);

#endif
