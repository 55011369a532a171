/*
 * container.c - a module in the places of PTX and cubin: see softgpu/module.h. Pure.
 */
#include "program.h"

#include "softgpu/module.h"

#include <string.h>

enum { LINE_BYTES = 57 }; /* of the module in a line of text: 76 characters */

static void
add_line(struct buffer *text, const unsigned char *bytes, size_t count)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    char line[LINE_BYTES / 3 * 4 + 1];
    size_t length = 0;
    for (size_t i = 0; i < count; i += 3) {
        const size_t left = count - i;
        uint32_t bits = (uint32_t)bytes[i] << 16;
        if (left > 1)
            bits |= (uint32_t)bytes[i + 1] << 8;
        if (left > 2)
            bits |= bytes[i + 2];
        line[length++] = digits[bits >> 18];
        line[length++] = digits[bits >> 12 & 63];
        line[length++] = '=';
        line[length++] = '=';
        if (left > 1)
            line[length - 2] = digits[bits >> 6 & 63];
        if (left > 2)
            line[length - 1] = digits[bits & 63];
    }
    line[length++] = '\n';
    buffer_add(text, line, length);
}

static void
add_module(struct buffer *text, const struct _nvrtcProgram *program)
{
    const unsigned char *bytes = (const unsigned char *)program->module.data;
    const size_t count = program->module.length;
    buffer_add_string(text, SOFTGPU_PTX_BEGIN);
    buffer_add_string(text, SOFTGPU_PTX_CODE);
    for (size_t i = 0; i < count; i += LINE_BYTES)
        add_line(text, bytes + i, count - i < LINE_BYTES ? count - i : LINE_BYTES);
}

void
container_write_text(const struct _nvrtcProgram *program, struct buffer *text)
{
    if (program->module.length > 0)
        add_module(text, program);
    buffer_add(text, "", 1);
}

void
container_write_cubin(const struct _nvrtcProgram *program, struct buffer *cubin)
{
    const struct softgpu_cubin head = {SOFTGPU_CUBIN_MAGIC, SOFTGPU_MODULE_VERSION, 0, program->module.length};
    if (!program->is_real || program->module.length == 0)
        return;
    buffer_add(cubin, &head, sizeof(head));
    buffer_add(cubin, program->module.data, program->module.length);
}
