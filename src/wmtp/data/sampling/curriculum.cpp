#include "wmtp/data/sampling/curriculum.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "wmtp/core/error.h"

namespace wmtp::data {
namespace {

constexpr std::uint64_t kEpochMillionths = 1'000'000;

std::uint64_t millionths(double epochs) {
  return static_cast<std::uint64_t>(std::llround(epochs * static_cast<double>(kEpochMillionths)));
}

std::uint64_t share(std::uint64_t millionth, std::uint64_t n) {
  return static_cast<std::uint64_t>(static_cast<unsigned __int128>(millionth) * n /
                                    kEpochMillionths);
}

}  // namespace

std::vector<CurriculumPiece> curriculum_pieces(const std::vector<config::CurriculumPhase>& schedule,
                                               std::uint64_t epoch, std::uint64_t num_samples) {
  std::vector<CurriculumPiece> pieces;
  const std::uint64_t epoch_begin = epoch * kEpochMillionths,
                      epoch_end = epoch_begin + kEpochMillionths;
  for (std::size_t stage = 0; stage < schedule.size(); ++stage) {
    const bool last = stage + 1 == schedule.size();
    const std::uint64_t begin = std::max(epoch_begin, millionths(schedule[stage].from_epoch));
    const std::uint64_t end =
        last ? epoch_end : std::min(epoch_end, millionths(schedule[stage].to_epoch));
    if (begin >= end) continue;
    const std::uint64_t first = share(begin - epoch_begin, num_samples);
    const std::uint64_t past = share(end - epoch_begin, num_samples);
    if (past > first) pieces.push_back({stage, first, past - first});
  }
  return pieces;
}

CurriculumEpoch draw_curriculum(const RowTable& table, const SamplingOptions& options,
                                std::uint64_t epoch, DrawReport& report) {
  if (!options.n_samples || options.difficulty_bins.empty() || options.curriculum_schedule.empty())
    throw Error(ErrorKind::config, "data",
                "data_sampling.curriculum_learning needs n_samples, difficulty_bins and "
                "curriculum_schedule");
  if (options.use_length_balanced)
    throw Error(ErrorKind::config, "data",
                "data_sampling.curriculum_learning and use_length_balanced exclude each other");
  SamplingOptions strict = options;
  strict.on_shortage = OnShortage::error;  // a short epoch would move every later step
  CurriculumEpoch out;
  out.list.paired = options.use_pairwise;
  UsedRows used(table.num_rows());
  out.pieces = curriculum_pieces(options.curriculum_schedule, epoch,
                                 static_cast<std::uint64_t>(*options.n_samples));
  for (std::size_t i = 0; i < out.pieces.size(); ++i) {
    const DrawRequest request{table,
                              strict,
                              fmt::format("curriculum/{}/{}/", epoch, i),
                              out.pieces[i].count,
                              false,
                              options.curriculum_schedule[out.pieces[i].stage].difficulty_weights,
                              &used,
                              fmt::format("epoch/{}/", epoch)};
    const SampleList part = draw_samples(request, report);
    out.list.rows.insert(out.list.rows.end(), part.rows.begin(), part.rows.end());
    out.list.pairs.insert(out.list.pairs.end(), part.pairs.begin(), part.pairs.end());
  }
  return out;
}

}  // namespace wmtp::data
