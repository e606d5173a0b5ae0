// Which weights hold in which part of an epoch.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "wmtp/data/sampling/sample_list.h"

namespace wmtp::data {

struct CurriculumPiece {
  std::size_t stage = 0;               // entry of the schedule
  std::uint64_t first = 0, count = 0;  // places of the epoch
};

// The pieces of epoch e, cut at the schedule's edges: from fraction f to g of the epoch, floor(g*N)
// - floor(f*N) samples. Fractions are integers in millionths. Pieces without a sample are left out.
std::vector<CurriculumPiece> curriculum_pieces(const std::vector<config::CurriculumPhase>& schedule,
                                               std::uint64_t epoch, std::uint64_t num_samples);

struct CurriculumEpoch {
  std::vector<CurriculumPiece> pieces;
  SampleList list;  // the pieces' samples, one after the other
};

// Draws epoch `epoch`; candidates used in an earlier piece come again only when a bin runs out
// (counted). A bin smaller than its quota is a data error.
CurriculumEpoch draw_curriculum(const RowTable& table, const SamplingOptions& options,
                                std::uint64_t epoch, DrawReport& report);

}  // namespace wmtp::data
