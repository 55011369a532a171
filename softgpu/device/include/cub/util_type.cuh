/*
 * cub/util_type.cuh - in the place of NVIDIA's: types that arguments of CUB's algorithms have.
 */
#ifndef SOFTGPU_CUB_UTIL_TYPE_H
#define SOFTGPU_CUB_UTIL_TYPE_H
#pragma GCC system_header

namespace cub
{

template <class K, class V> struct KeyValuePair {
    typedef K Key;
    typedef V Value;
    Key key;
    Value value;

    KeyValuePair() = default;
    KeyValuePair(const Key &k, const Value &v) : key(k), value(v)
    {
    }
    bool operator==(const KeyValuePair &other) const
    {
        return key == other.key && value == other.value;
    }
    bool operator!=(const KeyValuePair &other) const
    {
        return !(*this == other);
    }
};

/* Two arrays of a sort, of which `selector` says the one that holds the elements. */
template <class T> struct DoubleBuffer {
    T *d_buffers[2];
    int selector;

    DoubleBuffer() : d_buffers{nullptr, nullptr}, selector(0)
    {
    }
    DoubleBuffer(T *current, T *alternate) : d_buffers{current, alternate}, selector(0)
    {
    }
    T *Current() const
    {
        return d_buffers[selector];
    }
    T *Alternate() const
    {
        return d_buffers[selector ^ 1];
    }
};

} // namespace cub

#endif
