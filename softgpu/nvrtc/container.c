/*
 * container.c - see container.h.
 */
#include "container.h"

#include "softgpu/module.h"

#include <stdint.h>

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

void
container_write_text(const void *module, size_t count, struct buffer *text)
{
    const unsigned char *bytes = module;
    buffer_add_string(text, SOFTGPU_PTX_BEGIN);
    buffer_add_string(text, SOFTGPU_PTX_CODE);
    for (size_t i = 0; i < count; i += LINE_BYTES)
        add_line(text, bytes + i, count - i < LINE_BYTES ? count - i : LINE_BYTES);
}

void
container_write_cubin(const void *module, size_t count, struct buffer *cubin)
{
    const struct softgpu_cubin head = {SOFTGPU_CUBIN_MAGIC, SOFTGPU_MODULE_VERSION, 0, count};
    buffer_add(cubin, &head, sizeof(head));
    buffer_add(cubin, module, count);
}
