from ._errors import (
    FileProblem as FileProblem,
    Refusal as Refusal,
    count as count,
    did_you_mean as did_you_mean,
    hide_password as hide_password,
    listed as listed,
    one_line as one_line,
    pd as pd,
    printable as printable,
    refusing as refusing,
)
from ._files import (
    writable_file as writable_file,
    writable_folder as writable_folder,
)
from ._label_file import (
    Journal as Journal,
    Line as Line,
    cell_text as cell_text,
)
from ._models import (
    Unsavable as Unsavable,
    load_model as load_model,
    read_model as read_model,
    save_model as save_model,
)
from ._sources import (
    Reading as Reading,
    find as find,
)
from ._tables import (
    MAX_CLASSES_AS_NUMBERS as MAX_CLASSES_AS_NUMBERS,
    Table as Table,
    read_table as read_table,
    read_target as read_target,
    without_gaps as without_gaps,
)
from ._writing import (
    FolderLock as FolderLock,
    append_synced as append_synced,
    csv_text as csv_text,
    finished_together as finished_together,
    refuse_destination as refuse_destination,
    write_finished as write_finished,
    write_table as write_table,
)
