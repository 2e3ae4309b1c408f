// Prepares the surface of a hilly landscape for drawing: fewer triangles, in an order that caches like, packed and unpacked.
#include "meshoptimizer.h"
#include "work.h"
#include <cmath>
#include <cstdio>
#include <vector>

struct Vertex {
    float place[3], normal[3];
};

int main(int argc, char **argv) {
    const unsigned side = 160;
    std::uint64_t sum = 0;
    for (int round = rounds(argc, argv, 6); round > 0; round--) {
        std::vector<Vertex> vertices;
        std::vector<unsigned> indices;
        for (unsigned y = 0; y < side; y++)
            for (unsigned x = 0; x < side; x++) {
                float height = std::sin(x * 0.11f + round) * std::cos(y * 0.07f) * 9 + float(x * 31 % 17 + y * 7 % 13) * 0.05f;
                vertices.push_back({{float(x), height, float(y)}, {0, 1, 0}});
            }
        for (unsigned y = 0; y + 1 < side; y++)
            for (unsigned x = 0; x + 1 < side; x++) {
                unsigned at = y * side + x;
                indices.insert(indices.end(), {at, at + side, at + 1, at + 1, at + side, at + side + 1});
            }
        std::vector<unsigned> simple(indices.size());
        simple.resize(meshopt_simplify(simple.data(), indices.data(), indices.size(), vertices[0].place, vertices.size(), sizeof(Vertex), indices.size() / 4, 0.05f, 0, nullptr));
        for (auto *mesh : {&indices, &simple}) {
            meshopt_optimizeVertexCache(mesh->data(), mesh->data(), mesh->size(), vertices.size());
            meshopt_optimizeOverdraw(mesh->data(), mesh->data(), mesh->size(), vertices[0].place, vertices.size(), sizeof(Vertex), 1.05f);
            std::vector<Vertex> ordered(vertices.size());
            ordered.resize(meshopt_optimizeVertexFetch(ordered.data(), mesh->data(), mesh->size(), vertices.data(), vertices.size(), sizeof(Vertex)));
            std::vector<unsigned char> packed(meshopt_encodeVertexBufferBound(ordered.size(), sizeof(Vertex)));
            packed.resize(meshopt_encodeVertexBuffer(packed.data(), packed.size(), ordered.data(), ordered.size(), sizeof(Vertex)));
            if (meshopt_decodeVertexBuffer(ordered.data(), ordered.size(), sizeof(Vertex), packed.data(), packed.size())) return 1;
            sum = checksum(checksum(sum, packed.data(), packed.size()), mesh->data(), mesh->size() * sizeof(unsigned));
        }
    }
    std::printf("%016llx\n", static_cast<unsigned long long>(sum));
    return 0;
}
