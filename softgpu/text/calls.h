/*
 * calls.h - calls in C++ and CUDA text: name, arguments, the object of a method. Kernel launches are calls, too.
 */
#ifndef SOFTGPU_TEXT_CALLS_H
#define SOFTGPU_TEXT_CALLS_H

#include "text/tokens.h"

enum { CALL_ARGUMENTS_AT_MOST = 24 };

/* `layer->make<float>(n, 2)`; `kernel<<<1, n>>>(x)`. */
struct call {
    uint32_t name;             /* the token of the name; of a launch its first '<' of "<<<" */
    uint32_t open, close;      /* the brackets around the arguments */
    struct token_range object; /* "layer->", "layer."; empty: none */
    struct token_range arguments[CALL_ARGUMENTS_AT_MOST];
    uint32_t count; /* of arguments; those beyond CALL_ARGUMENTS_AT_MOST are left out */
};

/* The call whose name is token i: "name(", "name<int>(". False: token i is not the name of a call. A declaration of a
 * function reads as a call. `begin`: an object does not begin before it. */
bool call_read(const struct code *code, uint32_t i, uint32_t begin, struct call *call);

/* The launch whose "<<<" begins with token i. False: there is none. */
bool call_read_launch(const struct code *code, uint32_t i, struct call *call);

/* The call of a function among tokens: "make" and "make<float>" (what is in the angles does not count). Of several it
 * is the innermost one around a place of the text. False: there is none, or which of several is not known. */
bool call_find(const struct code *code, struct token_range in, const char *function, size_t place, struct call *call);

/* The same; calls in the arguments of a call of the function do not count. */
bool call_find_outermost(const struct code *code, struct token_range in, const char *function, struct call *call);

/* The first token of a call's name, with the namespaces in front of it. */
uint32_t call_name_begin(const struct code *code, const struct call *call);

/* Splits what is in the brackets at `open` at its commas: call->open, close, arguments and count. */
void call_split(const struct code *code, uint32_t open, struct call *call);

#endif
