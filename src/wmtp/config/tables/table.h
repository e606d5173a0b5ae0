// How the table_*.cpp files write rows: `add(rows, WMTP_KEY(training.batch_size), "help").free()`.
// The key's name is the member's path, so it is written once.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "wmtp/config/tables/schema.h"
#include "wmtp/config/tables/value_types.h"

namespace wmtp::config {

template <class T>
struct Member {
  T& (*of)(Config&);
};

#define WMTP_KEY(member)                                         \
#member, Member < decltype(std::declval <Config&>().member)> { \
    [](Config & config) -> auto& {                               \
      return config.member;                                      \
    }                                                            \
  }

template <class T>
Row& add(std::vector<Row>& rows, const char* key, Member<T> member, std::string help) {
  Row& row = rows.emplace_back();
  row.key = key;
  row.help = std::move(help);
  ValueType<T>::info(row.type);
  row.assign = [member](Config& config, const Node& node, const Row& self, Problems& problems) {
    auto value = ValueType<T>::read(node, Reading{self, problems});
    if (value) member.of(config) = std::move(*value);
    return value.has_value();
  };
  // Member::of only names the place; nothing is written through it here.
  row.value = [member](const Config& config) {
    return ValueType<T>::json(member.of(const_cast<Config&>(config)));
  };
  row.json_schema = [](const Row& self) { return ValueType<T>::schema(self); };
  return row;
}

void add_model_rows(std::vector<Row>& rows);
void add_data_rows(std::vector<Row>& rows);
void add_training_rows(std::vector<Row>& rows);
void add_objective_rows(std::vector<Row>& rows);
void add_checkpoint_rows(std::vector<Row>& rows);
void add_storage_rows(std::vector<Row>& rows);
void add_runtime_rows(std::vector<Row>& rows);
void add_tracking_rows(std::vector<Row>& rows);
void add_logging_rows(std::vector<Row>& rows);

}  // namespace wmtp::config
