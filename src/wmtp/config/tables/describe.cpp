#include "wmtp/config/tables/describe.h"

#include <fmt/format.h>

#include "wmtp/config/canonical.h"
#include "wmtp/config/tables/schema.h"

namespace wmtp::config {
namespace {

char letter_of(ResumeClass resume) {
  return resume == ResumeClass::same ? 'S' : resume == ResumeClass::free ? 'F' : 'H';
}

std::string default_text(const Row& row) {
  if (row.required) return "required";
  if (!row.default_note.empty()) return row.default_note;
  return yaml_text(schema().default_of(row));
}

std::string availability(const Row& row) {
  if (!row.available) return "not available in this version";
  if (row.later_values.empty()) return "";
  return fmt::format("not available in this version: {}", fmt::join(row.later_values, ", "));
}

std::string full_help(const Row& row) {
  const std::string when = availability(row);
  return when.empty() ? row.help : row.help + " (" + when + ")";
}

OrderedJson schema_of(const Row& row) {
  OrderedJson value = row.json_schema(row);
  OrderedJson node{{"description", full_help(row)}};
  if (!row.required && row.default_note.empty()) node["default"] = schema().default_of(row);
  if (row.type.text && !row.type.nullable)
    node.update(value);
  else
    node["anyOf"] = OrderedJson::array({value, {{"$ref", "#/$defs/reference"}}});
  return node;
}

OrderedJson schema_of_section(const std::string& path) {
  OrderedJson properties = OrderedJson::object();
  for (const std::string& name : schema().children(path)) {
    const std::string key = path.empty() ? name : path + "." + name;
    const Row* row = schema().find(key);
    properties[name] = row ? schema_of(*row) : schema_of_section(key);
  }
  OrderedJson node{{"type", "object"}};
  if (!path.empty()) node["description"] = schema().section_help(path);
  node["properties"] = std::move(properties);
  node["additionalProperties"] = false;
  return node;
}

// `|` would end a table cell.
std::string cell(const std::string& text) {
  std::string out;
  for (const char c : text) out += c == '|' ? "\\|" : std::string(1, c);
  return out;
}

std::string table_line(const Row& row) {
  std::string type = row.type.name;
  if (const std::string range = row.range.text(); !range.empty()) type += " " + range;
  const std::string mark = row.available ? "" : " *";
  return fmt::format("| `{}`{} | {} | `{}` | {} | {} |\n", row.key, mark, cell(type),
                     cell(default_text(row)), letter_of(row.resume),
                     cell(row.available ? full_help(row) : row.help));
}

constexpr const char* kIntroduction =
    R"(# Configuration keys

Made from the schema table by `wmtp validate --docs`; do not edit by hand.

Layers, later wins: built-in defaults, `defaults.yaml`, the files a stage file `extends`, the stage file
(`--config`), each `--override key.path=value` from left to right. Maps merge key by key, lists and scalars
replace. In text, `${a.b}` stands for another key, `${env:NAME}` or `${env:NAME:-text}` for a variable of the
environment, and `$${` for a literal `${`. `wmtp validate --config F --resolved --origins` shows the result.

Resume class: **S** must be the same when a run is resumed (unless named in `checkpoint.allow_config_change`),
**F** may change freely, **H** belongs to the machine and is never compared. A key marked `*` is not acted on
in this version: any value but its default is refused.

A key that cannot act beside the others (`training.td.*` outside verifiable, `training.td.lambda` without gae) is refused
if the stage file or an override writes it, and ignored with a notice if it comes from `defaults.yaml` or an extended
file. What stands behind a switch that is off (`training.lora.*` without `use_lora`) may stay: a notice says so.

Accepted other names: `training.scheduler` for `training.lr_scheduler`; `training.td_lambda`, `beta`,
`weight_clip_min`, `weight_clip_max`, `td_ema_momentum`, `td_ema_warmup_steps` for the keys of `training.td`;
`training.rho1_mode`, `k_percent`, `value_coef`; `true` and `false` for `activation_checkpointing` (block, none);
`bfloat16`, `float16`, `float32`; sharding strategies in any case.
)";

}  // namespace

OrderedJson json_schema() {
  OrderedJson root{
      {"$schema", "https://json-schema.org/draft/2020-12/schema"},
      {"title", "wmtp configuration"},
      {"description",
       "One layer of a wmtp configuration; required keys may stand in another layer."}};
  root.update(schema_of_section(""));
  const OrderedJson path{{"type", "string"}, {"minLength", 1}};
  root["properties"]["extends"] = {{"description", "Files this one builds on, relative to it"},
                                   {"anyOf", {path, {{"type", "array"}, {"items", path}}}}};
  root["$defs"]["reference"] = {{"type", "string"}, {"pattern", "\\$\\{"}};
  return root;
}

std::string markdown_reference() {
  std::string text = kIntroduction;
  std::string section;
  for (const Row& row : schema().rows()) {
    const std::string top = row.key.substr(0, row.key.find('.'));
    if (top != section) {
      section = top;
      text += fmt::format(
          "\n## {}\n{}\n\n| key | type | default | class | meaning |\n|---|---|---|---|---|\n", top,
          schema().section_help(top));
    }
    text += table_line(row);
  }
  return text;
}

}  // namespace wmtp::config
