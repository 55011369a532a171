#include "textcat.h"

#include <iostream>

int main()
{
    const int batch = 50, epochs = 6;
    std::mt19937 rng(6);
    textcat::Corpus train = textcat::makeCorpus(450, 14, 5, 200, rng);
    textcat::Corpus test = textcat::makeCorpus(100, 14, 5, 200, rng);
    textcat::Classifier model(train, 18, 100, rng);

    for (int epoch = 1; epoch <= epochs; ++epoch) {
        train.shuffle(rng);
        float loss = 0.f;
        int batches = 0;
        for (int first = 0; first + batch <= train.size(); first += batch, ++batches)
            loss += model.fit(train, first, batch, epoch < 5 ? 3.0f : 1.5f);
        std::cout << "epoch " << epoch << "  loss " << loss / batches << "  test accuracy " << model.accuracy(test, 0, test.size()) << '\n';
    }
}
