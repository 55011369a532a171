/*
 * late.cpp - a C++ library that notes.c and dates.c, which are none, load with RTLD_LOCAL: no other object of the
 * process finds its libstdc++.
 */
#include <ctime>
#include <random>

static std::random_device device;

extern "C" __attribute__((visibility("default"))) unsigned late_random(void);

extern "C" unsigned
late_random(void)
{
    volatile unsigned number = device(); /* no tail call: this is the place that asks */
    return number;
}

extern "C" __attribute__((visibility("default"))) time_t late_date(void);

extern "C" time_t
late_date(void)
{
    volatile time_t date = time(nullptr);
    return date;
}
