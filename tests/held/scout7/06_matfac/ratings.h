#ifndef RATINGS_H
#define RATINGS_H
#include <vector>

struct Rating {
    int user;
    int item;
    float value;
};

std::vector<Rating> loadRatings(int users, int items, int count, float *mean);
#endif
