#include "wmtp/tracking/profile_summary.h"

#include <fmt/format.h>

#include <algorithm>

#include "wmtp/tracking/escaped_text.h"
#include "wmtp/tracking/report/recorded/json_lines.h"
#include "wmtp/tracking/run_files.h"
#include "wmtp/tracking/table.h"

namespace wmtp::tracking {
namespace {

constexpr std::size_t kShownOperators = 15;

OrderedJson rows_json(const std::vector<ProfileRow>& rows) {
  OrderedJson list = OrderedJson::array();
  for (const ProfileRow& row : rows)
    list.push_back({{"name", row.name}, {"calls", row.calls}, {"seconds", row.seconds}});
  return list;
}

std::vector<ProfileRow> rows_of(const JsonLine& file, const char* key) {
  std::vector<ProfileRow> rows;
  for (const Json& row : array_field(file, file.object, key))
    rows.push_back({text_field(file, row, "name"), integer_field(file, row, "calls"),
                    number_of(file, field(file, row, "seconds"), "seconds")});
  return rows;
}

std::string share_text(double part, double whole) {
  return whole > 0 ? fmt::format("{:.1f} %", 100 * part / whole) : "-";
}

std::vector<std::string> cells_of(const ProfileRow& row, double wall_s) {
  return {visible(row.name), row.calls > 0 ? std::to_string(row.calls) : "",
          fmt::format("{:.2f} ms", row.seconds * 1e3), share_text(row.seconds, wall_s)};
}

std::string table_text(const char* rows, const ProfileCells& cells, bool color) {
  Table table(profile_header(rows));
  for (const auto& row : cells) table.add_row(row);
  return table.text(color);
}

}  // namespace

std::filesystem::path profile_file(const std::filesystem::path& run_dir) {
  return run_dir / kProfileFolder / kSummaryFile;
}

OrderedJson to_json(const ProfileSummary& summary) {
  return {{"first_step", summary.first_step},
          {"last_step", summary.last_step},
          {"rank", summary.rank},
          {"world", summary.world},
          {"device", summary.device},
          {"wall_s", summary.wall_s},
          {"gap_s", summary.gap_s},
          {"gemm_s", summary.gemm_s},
          {"phases", rows_json(summary.phases)},
          {"operators", rows_json(summary.operators)}};
}

ProfileSummary read_profile(const std::filesystem::path& file) {
  const JsonLine line{read_json(file), file.string()};
  const auto number = [&line](const char* key) {
    return number_of(line, field(line, line.object, key), key);
  };
  ProfileSummary summary;
  summary.first_step = integer_field(line, line.object, "first_step");
  summary.last_step = integer_field(line, line.object, "last_step");
  summary.rank = static_cast<int>(integer_field(line, line.object, "rank"));
  summary.world = static_cast<int>(integer_field(line, line.object, "world"));
  summary.device = text_field(line, line.object, "device");
  summary.wall_s = number("wall_s");
  summary.gap_s = number("gap_s");
  summary.gemm_s = number("gemm_s");
  summary.phases = rows_of(line, "phases");
  summary.operators = rows_of(line, "operators");
  return summary;
}

std::string profile_title(const ProfileSummary& summary) {
  const std::string steps =
      summary.first_step == summary.last_step
          ? fmt::format("step {}", summary.first_step)
          : fmt::format("steps {} to {}", summary.first_step, summary.last_step);
  const std::string rank =
      summary.world > 1 ? fmt::format(" of rank {} of {}", summary.rank, summary.world) : "";
  return fmt::format("profile of {}{}: {:.2f} ms; matrix products {}, in no operator {}", steps,
                     rank, summary.wall_s * 1e3, share_text(summary.gemm_s, summary.wall_s),
                     share_text(summary.gap_s, summary.wall_s));
}

std::vector<std::string> profile_header(const char* rows) {
  return {rows, "calls", "time", "share"};
}

ProfileCells phase_cells(const ProfileSummary& summary) {
  ProfileCells cells;
  for (const ProfileRow& row : summary.phases) cells.push_back(cells_of(row, summary.wall_s));
  return cells;
}

ProfileCells operator_cells(const ProfileSummary& summary) {
  ProfileCells cells;
  ProfileRow others{"other operators"};
  for (std::size_t i = 0; i < summary.operators.size(); ++i) {
    const ProfileRow& row = summary.operators[i];
    if (i < kShownOperators) {
      cells.push_back(cells_of(row, summary.wall_s));
      continue;
    }
    others.calls += row.calls;
    others.seconds += row.seconds;
  }
  if (others.calls > 0) cells.push_back(cells_of(others, summary.wall_s));
  cells.push_back(cells_of({"in no operator", 0, summary.gap_s}, summary.wall_s));
  return cells;
}

std::string profile_text(const ProfileSummary& summary, bool color) {
  return profile_title(summary) + "\n" + table_text("phase", phase_cells(summary), color) +
         table_text("operator", operator_cells(summary), color);
}

}  // namespace wmtp::tracking
