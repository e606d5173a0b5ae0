#include "wmtp/tensor/profile_scope.h"

#include <ATen/record_function.h>

#include <string>

namespace wmtp {
namespace {

bool is_profiled(at::RecordScope scope) {
  return at::getStepCallbacksUnlessEmpty(scope).has_value();
}

std::unique_ptr<at::RecordFunction> begun(at::RecordScope scope, std::string_view what,
                                          std::string_view which) {
  auto record = std::make_unique<at::RecordFunction>(scope);
  record->before(std::string(what).append(which));  // it keeps a copy
  return record;
}

}  // namespace

ProfileScope::ProfileScope(std::string_view what, std::string_view which) {
  if (is_profiled(at::RecordScope::USER_SCOPE))
    record_ = begun(at::RecordScope::USER_SCOPE, what, which);
}

ProfileScope::ProfileScope(std::string_view what, std::int64_t which) {
  if (is_profiled(at::RecordScope::USER_SCOPE))
    record_ = begun(at::RecordScope::USER_SCOPE, what, std::to_string(which));
}

ProfileScope::~ProfileScope() = default;

ProfiledOperator::ProfiledOperator(std::string_view name, std::string_view suffix) {
  if (is_profiled(at::RecordScope::FUNCTION))
    record_ = begun(at::RecordScope::FUNCTION, name, suffix);
}

ProfiledOperator::~ProfiledOperator() = default;

}  // namespace wmtp
