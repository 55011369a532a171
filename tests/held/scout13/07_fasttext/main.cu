#include "model.h"
#include <algorithm>
#include <cstdio>
#include <random>

int main()
{
    const int vocabulary = 400, topics = 6, batch = 40, maxWords = 20, documents = 800, heldOut = 80;
    std::mt19937 rng(3);
    std::vector<Document> docs(documents + heldOut);
    for (auto &d : docs) {
        d.topic = rng() % topics;
        const int length = 6 + rng() % (maxWords - 5);
        for (int w = 0; w < length; ++w)  // a third of the words belongs to the topic
            d.words.push_back(rng() % 3 ? rng() % vocabulary : d.topic * 40 + rng() % 40);
    }

    TextClassifier model(vocabulary, 16, topics, heldOut, maxWords);
    const int perEpoch = documents / batch, epochs = 3;
    int step = 0;
    for (int epoch = 0; epoch < epochs; ++epoch) {
        std::shuffle(docs.begin(), docs.begin() + documents, rng);
        float loss = 0.f;
        for (int first = 0; first + batch <= documents; first += batch, ++step) {
            const float rate = 20.f * (1.f - step / (float)(perEpoch * epochs));
            loss += model.trainBatch(docs, first, batch, rate);
        }
        printf("epoch %d: loss %.4f, held out accuracy %.3f\n", epoch, loss / perEpoch, model.accuracy(docs, documents, heldOut));
    }
    return 0;
}
