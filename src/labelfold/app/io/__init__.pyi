from ._arrow_tables import (
    as_written as as_written,
    chosen as chosen,
)
from ._databases import (
    Database as Database,
    refuse_table as refuse_table,
    write_new_table as write_new_table,
)
from ._errors import (
    FileProblem as FileProblem,
    Refusal as Refusal,
    count as count,
    did_you_mean as did_you_mean,
    hidden as hidden,
    listed as listed,
    one_line as one_line,
    pd as pd,
    printable as printable,
    refusing as refusing,
    without_password as without_password,
)
from ._files import (
    refuse_input as refuse_input,
    unpacked_name as unpacked_name,
    writable_file as writable_file,
    writable_folder as writable_folder,
)
from ._images import (
    picture as picture,
)
from ._label_file import (
    FIELDS as FIELDS,
    Journal as Journal,
    Line as Line,
    cell_text as cell_text,
    refuse_taken as refuse_taken,
)
from ._models import (
    SavedModel as SavedModel,
    Unsavable as Unsavable,
    load_model as load_model,
    read_model as read_model,
    save_model as save_model,
)
from ._sources import (
    Reading as Reading,
    find as find,
    folder_of as folder_of,
)
from ._tables import (
    EMPTY as EMPTY,
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
    writable_table as writable_table,
    write_finished as write_finished,
    write_table as write_table,
)
