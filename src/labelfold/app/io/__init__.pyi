from ._csv import (
    Cells as Cells,
)
from ._databases import (
    Database as Database,
    hidden as hidden,
    refuse_table as refuse_table,
    without_password as without_password,
    write_new_table as write_new_table,
)
from ._frames import (
    as_written as as_written,
    chosen as chosen,
)
from ._images import (
    picture as picture,
)
from ._label_file import (
    JOURNAL as JOURNAL,
    ROWS as ROWS,
    cell_text as cell_text,
    label_lines as label_lines,
)
from ._models import (
    SavedModel as SavedModel,
    Unsavable as Unsavable,
    load_model as load_model,
    read_model as read_model,
    save_model as save_model,
)
from ._problems import (
    FileProblem as FileProblem,
    Refusal as Refusal,
    count as count,
    did_you_mean as did_you_mean,
    listed as listed,
    one_line as one_line,
    pd as pd,
    printable as printable,
    refuse_input as refuse_input,
    refusing as refusing,
    unpacked_name as unpacked_name,
    writable_file as writable_file,
    writable_folder as writable_folder,
)
from ._shipped import (
    SHIPPED as SHIPPED,
    shipped_truth as shipped_truth,
    write_shipped as write_shipped,
)
from ._sources import (
    Reading as Reading,
    find as find,
    folder_of as folder_of,
)
from ._split import (
    without_gaps as without_gaps,
)
from ._tables import (
    EMPTY as EMPTY,
    Table as Table,
    read_table as read_table,
    read_target as read_target,
)
from ._writing import (
    append_synced as append_synced,
    csv_text as csv_text,
    finished_together as finished_together,
    handle_of as handle_of,
    lock as lock,
    sync_folder as sync_folder,
    writable_table as writable_table,
    write_finished as write_finished,
    write_table as write_table,
)
