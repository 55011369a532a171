/*
 * pointers.c - see memory.h.
 */
#include "interpose/engine/memory/memory.h"

static void
visit_words(uint32_t argument, const void *value, size_t bytes, pointed_fn visit, void *arg)
{
    for (size_t at = 0; at + sizeof(uint64_t) <= bytes; at += sizeof(uint64_t)) {
        uint64_t word;
        memcpy(&word, (const char *)value + at, sizeof(word));
        if (word >= 4096)
            visit(arg,
                  &(struct pointed){argument | (uint32_t)(at / sizeof(word)) << POINTER_WORD_SHIFT, word, 0, false});
    }
}

static void
visit_operands(const struct operation *operation, bool reads, pointed_fn visit, void *arg)
{
    for (unsigned i = 0; i < operation->operand_count; ++i) {
        const struct operand *operand = &operation->operands[i];
        bool is_read = operand->access == ACCESS_READ;
        if (operand->pointer_count == 0 && (reads || !is_read))
            visit(arg, &(struct pointed){operand->argument, operand->address, operand->bytes, is_read});
    }
}

const void *
pointers_argument(const struct operation *operation, const struct function_layout *layout, unsigned number)
{
    const char *buffer = NULL;
    size_t bytes = 0;
    if (operation->params != NULL)
        return operation->params[number];
    for (void *const *word = operation->extra; word != NULL && *word != CU_LAUNCH_PARAM_END; word += 2) {
        if (*word == CU_LAUNCH_PARAM_BUFFER_POINTER)
            buffer = word[1];
        else if (*word == CU_LAUNCH_PARAM_BUFFER_SIZE)
            bytes = *(const size_t *)word[1];
    }
    size_t end = layout->params[number].offset + layout->params[number].bytes;
    return buffer != NULL && end <= bytes ? buffer + layout->params[number].offset : NULL;
}

void
pointers_visit(const struct operation *operation, const struct function_layout *layout, bool reads, pointed_fn visit,
               void *arg)
{
    visit_operands(operation, reads, visit, arg);
    for (unsigned i = 0; layout != NULL && i < layout->param_count; ++i) {
        const void *value = pointers_argument(operation, layout, i);
        visit_words(i, value, value != NULL ? layout->params[i].bytes : 0, visit, arg);
    }
}

bool
pointers_may_update(const struct operation *operation, const struct function_layout **layout_p)
{
    *layout_p = NULL;
    if (operation->graph != NULL || atomic_load(&engine_state.captures_open) > 0 ||
        stream_is_captured(operation->stream))
        return false;
    if (operation->function == NULL)
        return strncmp(operation->name, "cuMem", 5) != 0;
    *layout_p = function_layout(operation->function);
    return (*layout_p)->known;
}

bool
pointers_annotated(CUdeviceptr address, struct tensor *tensor_p, CUdeviceptr *next_p)
{
    size_t count;
    engine_lock();
    const struct range *range = ranges_find(&memory_state.ranges, address, UINT64_MAX, &count); /* and all after it */
    bool found = range != NULL && range->begin <= address;
    if (found)
        *tensor_p = memory_state.tensors[range->id];
    *next_p = count > found ? range[found].begin : UINT64_MAX;
    engine_unlock();
    return found;
}
