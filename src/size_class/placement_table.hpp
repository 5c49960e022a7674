// How the blocks of each size class lie in their spans. Made by tools/placement_table.
//
// For each class: bytes of a block, log2 of the blocks in a row between spacers, log2 of the slots of a span, lines
// from one span's colour to the next one's. Behind it: what it serves and how; blocks and colours of a span; what tail,
// spacers and added lines take of a span; of 256 blocks, in thousandths, how many of the cache indices they start at,
// and how many of them are on an index no fuller than if all were spread ideally; the indices without placement.
#pragma once

#include <array>

#include "size_class/size_class.hpp"
#include "size_class/stride.hpp"

namespace coffer {

struct PlacementChoice {
  u16 block_bytes;
  u8 row_log2;
  u8 slots_log2;
  u8 colour_step;
};

// clang-format off
inline constexpr std::array<PlacementChoice, kSizeClasses> kPlacementTable = {{
    // bytes        row slots step  request way        slots blocks colours   waste indices even  without
    {   16, kNoSpacers, 0,  0},  //     16  flat           1   2048       1   0.00 %    1000 1000     1000
    {   32, kNoSpacers, 0,  0},  //     32  flat           1   1024       1   0.00 %    1000 1000     1000
    {   48, kNoSpacers, 0,  0},  //     48  flat           1    682       1   0.09 %    1000 1000     1000
    {   64, kNoSpacers, 0,  0},  //     64  flat           1    512       1   0.00 %    1000 1000     1000
    {   80, kNoSpacers, 0,  0},  //     80  flat           1    409       1   0.14 %    1000 1000     1000
    {   96, kNoSpacers, 0,  0},  //     96  flat           1    341       1   0.09 %    1000 1000     1000
    {  112, kNoSpacers, 0,  1},  //    112  flat           1    292       2   0.19 %    1000 1000     1000
    {  128,          5, 0,  0},  //    128  punctuated     1    252       1   1.56 %    1000  984      500
    {  144, kNoSpacers, 0,  1},  //    144  flat           1    227       2   0.24 %    1000  972     1000
    {  160, kNoSpacers, 0,  1},  //    160  flat           1    204       3   0.39 %    1000  953     1000
    {  176, kNoSpacers, 0,  0},  //    176  flat           1    186       1   0.09 %    1000  933     1000
    {  192, kNoSpacers, 0,  1},  //    192  flat           1    170       3   0.39 %    1000  996     1000
    {  208, kNoSpacers, 0,  1},  //    208  flat           1    157       2   0.34 %    1000  941     1000
    {  224, kNoSpacers, 0,  1},  //    224  flat           1    146       2   0.19 %    1000  929     1000
    {  240, kNoSpacers, 0,  1},  //    240  flat           1    136       3   0.39 %    1000  796      734
    {  256,          4, 0,  0},  //    256  punctuated     1    126       1   1.56 %    1000  984      250
    {  288, kNoSpacers, 0,  1},  //    288  flat           1    113       4   0.68 %    1000  968     1000
    {  320, kNoSpacers, 0,  1},  //    320  flat           1    102       3   0.39 %    1000  902     1000
    {  352, kNoSpacers, 0,  0},  //    352  flat           1     93       1   0.09 %    1000  816     1000
    {  384, kNoSpacers, 0,  1},  //    384  flat           1     85       3   0.39 %    1000  832      500
    {  416, kNoSpacers, 0,  1},  //    416  flat           1     78       6   0.97 %    1000  953     1000
    {  448, kNoSpacers, 0,  1},  //    448  flat           1     73       2   0.19 %    1000  894     1000
    {  480, kNoSpacers, 0,  1},  //    480  flat           1     68       3   0.39 %    1000  835      671
    {  512,          3, 0,  0},  //    512  punctuated     1     63       1   1.56 %     984  984      125
    {  576, kNoSpacers, 0,  1},  //    576  flat           1     56       9   1.56 %    1000  984      875
    {  640, kNoSpacers, 0,  1},  //    640  flat           1     51       3   0.39 %    1000  703      500
    {  704, kNoSpacers, 0,  3},  //    704  flat           1     46       7   1.17 %    1000  929      718
    {  768, kNoSpacers, 0,  1},  //    768  flat           1     42       9   1.56 %    1000  757      250
    {  832, kNoSpacers, 0,  5},  //    832  flat           1     39       6   0.97 %    1000  765      609
    {  896, kNoSpacers, 0,  1},  //    896  flat           1     36       9   1.56 %    1000  921      500
    {  960, kNoSpacers, 0,  1},  //    960  flat           1     34       3   0.39 %    1000  847      531
    { 1024,          2, 1,  0},  //   1024  punctuated     2     63       1   1.56 %     984  984       62
    { 1152, kNoSpacers, 0,  1},  //   1152  flat           1     28       9   1.56 %    1000  937      437
    { 1280, kNoSpacers, 1,  2},  //   1280  flat           2     51       5   0.39 %    1000  847      250
    { 1408, kNoSpacers, 1,  1},  //   1408  flat           2     46      13   1.17 %    1000  859      359
    { 1536, kNoSpacers, 0,  2},  //   1536  flat           1     21       9   1.56 %    1000  800      125
    { 1664, kNoSpacers, 1,  5},  //   1664  flat           2     39      11   0.97 %    1000  890      500
    { 1792, kNoSpacers, 0,  1},  //   1792  flat           1     18       9   1.56 %    1000  859      250
    { 1920, kNoSpacers, 1,  1},  //   1920  flat           2     34       5   0.39 %    1000  835      265
    { 2048,          1, 2,  0},  //   2048  punctuated     4     63       1   1.56 %     984  984       31
    { 2304, kNoSpacers, 0,  1},  //   2304  flat           1     14       9   1.56 %    1000  906      218
    { 2560,          3, 3,  0},  //   2560  punctuated     8    102       1   0.39 %    1000  851      125
    { 2816, kNoSpacers, 1,  3},  //   2816  flat           2     23      13   1.17 %    1000  855      250
    { 3072,          2, 3,  0},  //   3072  punctuated     8     84       1   1.56 %    1000  828       62
    { 3328, kNoSpacers, 2, 10},  //   3328  flat           4     39      21   0.97 %    1000  792      250
    { 3584, kNoSpacers, 0,  2},  //   3584  flat           1      9       9   1.56 %    1000  820      125
    { 3840, kNoSpacers, 1,  1},  //   3840  flat           2     17       5   0.39 %    1000  824      250
    { 4160, kNoSpacers, 3,  1},  //   4096  odd            8     63       2   1.56 %    1000  984       15
    { 4608, kNoSpacers, 1,  5},  //   4608  flat           2     14      17   1.56 %    1000  890      125
    { 5184, kNoSpacers, 2, 23},  //   5120  odd            4     25      24   2.34 %    1000  863       62
    { 5632, kNoSpacers, 2,  3},  //   5632  flat           4     23      25   1.17 %    1000  824      125
    { 6208, kNoSpacers, 3,  7},  //   6144  odd            8     42      23   1.56 %    1000  941       31
    { 6720, kNoSpacers, 3,  1},  //   6656  odd            8     39       2   0.97 %    1000  835      125
    { 7168, kNoSpacers, 1,  2},  //   7168  flat           2      9      17   1.56 %    1000  851       62
    { 7680, kNoSpacers, 2,  2},  //   7680  flat           4     17       9   0.39 %    1000  828      125
    { 8256, kNoSpacers, 3, 29},  //   8192  odd            8     31      64   3.12 %    1000  953       15
    { 9216, kNoSpacers, 2, 13},  //   9216  flat           4     14      33   1.56 %    1000  859       62
    {10304, kNoSpacers, 3, 57},  //  10240  odd            8     25      64   2.34 %    1000 1000       31
    {11328, kNoSpacers, 3,  5},  //  11264  odd            8     23      26   1.17 %    1000  937       62
    {12352, kNoSpacers, 3, 31},  //  12288  odd            8     21      44   1.56 %     937  753       15
    {13376, kNoSpacers, 3,  3},  //  13312  odd            8     19      64   3.51 %    1000 1000       62
    {14400, kNoSpacers, 3, 13},  //  14336  odd            8     18      47   1.56 %    1000  894       31
    {15360, kNoSpacers, 2,  1},  //  15360  flat           4      8      64   6.25 %    1000 1000       62
    {16448, kNoSpacers, 3, 15},  //  16384  odd            8     15      64   6.25 %    1000 1000       15
    {18496, kNoSpacers, 3, 16},  //  18432  odd            8     14      51   1.56 %    1000  875       31
    {20544, kNoSpacers, 3, 51},  //  20480  odd            8     12      64   6.25 %    1000  968       15
    {22592, kNoSpacers, 3, 43},  //  22528  odd            8     11      64   5.46 %    1000 1000       31
    {24640, kNoSpacers, 3, 55},  //  24576  odd            8     10      64   6.25 %    1000  953       15
    {26688, kNoSpacers, 3, 41},  //  26624  odd            8      9      64   8.59 %    1000 1000       31
    {28736, kNoSpacers, 3,  9},  //  28672  odd            8      9      56   1.56 %     968  875       15
    {30720, kNoSpacers, 3,  1},  //  30720  flat           8      8      64   6.25 %    1000 1000       31
    {32832, kNoSpacers, 3,  7},  //  32768  odd            8      7      64  12.50 %    1000 1000       15
}};
// clang-format on

// Waste over all classes: 1.71 %; without placement 1.17 %.

}  // namespace coffer
